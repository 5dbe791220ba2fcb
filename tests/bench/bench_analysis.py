"""How long the analysis takes: 10,000 cells must take at most 2 s.

.venv/bin/python tests/bench/bench_analysis.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from controller.analysis.model import launch_from_records  # noqa: E402
from controller.analysis.sweep import analyse  # noqa: E402
from controller.load.records import InterTokenSummary, RequestRecord  # noqa: E402
from tests.bench.truth import Truth, draw  # noqa: E402

LIMIT_S = 2.0


def timed_sweeps(sweeps: int, blocks: int) -> float:
    """Return the seconds for analysing ``sweeps`` sweeps of 4 arms and ``blocks`` blocks."""
    drawn = list(draw(Truth((0.1, -0.1, 0.02), blocks=blocks), sweeps, seed=1))
    start = time.perf_counter()
    for launches in drawn:
        analyse(launches)
    return time.perf_counter() - start


def timed_records(launches: int, requests: int) -> float:
    """Return the seconds for making launches of records."""
    record = RequestRecord(
        prompt_id=0,
        run=0,
        warmup=False,
        started_s=0.0,
        ttft_s=0.2,
        e2e_s=3.0,
        decode_s=2.8,
        prompt_tokens=50,
        completion_tokens=256,
        verify_steps=120,
        accept_histogram=[30, 40, 30, 20],
        inter_token_s=InterTokenSummary(119, 0.02, 0.02, 0.03, 0.03, 0.04),
        text_sha256="0" * 64,
    )
    start = time.perf_counter()
    for number in range(launches):
        launch_from_records([record] * requests, cell_id=str(number), block=0, order=number, arm="steps=3", steps=3)
    return time.perf_counter() - start


def import_s(module: str) -> float:
    """Return the seconds a fresh Python needs to import a module, start-up of Python taken off."""

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
        return time.perf_counter() - start

    return min(run(f"import {module}") for _ in range(3)) - min(run("pass") for _ in range(3))


def main() -> None:
    """Print the figures; exit 1 when the limit is exceeded."""
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.2f}; cells are simulated")
    timed_sweeps(1, 3)  # loads scipy.special
    one = timed_sweeps(1, 2500)
    many = timed_sweeps(500, 5)
    print(f"10,000 cells in one sweep of 2,500 blocks:   {one:.2f} s (limit {LIMIT_S:g} s)")
    print(f"10,000 cells in 500 sweeps of 5 blocks:      {many:.2f} s (limit {LIMIT_S:g} s)")
    print(f"10,000 launches made of 24 records each:     {timed_records(10_000, 24):.2f} s")
    for module in ("controller.analysis.sweep", "scipy.special", "scipy.stats", "controller.analysis.breakeven"):
        print(f"import {module:37} {import_s(module):.2f} s")
    sys.exit(1 if max(one, many) > LIMIT_S else 0)


if __name__ == "__main__":
    main()
