"""How long a report takes and how large it is: 500 launches in at most 3 s and 2 MB.

.venv/bin/python tests/bench/bench_report.py
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.unit.controller.report.sample import write_sweep  # noqa: E402

LIMIT_S, LIMIT_MB = 3.0, 2.0
SPEEDS = {"baseline": 82.0, "steps-1": 70.0, "steps-2": 61.0, "steps-3": 57.0, "steps-4": 50.0}
BLOCKS = 100


def timed(directory: Path, formats: str) -> float:
    """Return the seconds of the whole command, start of Python included."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "controller", "report", str(directory), "--format", formats]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Print the figures; exit 1 when a limit is exceeded."""
    generator = random.Random(1)
    speeds = {arm: [speed * generator.gauss(1, 0.02) for _ in range(BLOCKS)] for arm, speed in SPEEDS.items()}
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.2f}; launches are simulated")
    ok = True
    for levels in ((1,), (1, 8, 32)):
        with tempfile.TemporaryDirectory() as folder:
            directory = write_sweep(Path(folder), speeds, levels=levels)
            none, html, everything = (
                min(timed(directory, formats) for _ in range(2)) for formats in ("none", "html", "all")
            )
            size_mb = (directory / "report.html").stat().st_size / 1e6
        print(
            f"{BLOCKS * len(SPEEDS)} launches, {len(levels)} level(s): text {none:.2f} s, with HTML {html:.2f} s, "
            f"with everything {everything:.2f} s (limit {LIMIT_S:g} s); report.html {size_mb:.2f} MB "
            f"(limit {LIMIT_MB:g} MB)"
        )
        if len(levels) == 1:
            ok = html <= LIMIT_S and size_mb <= LIMIT_MB
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
