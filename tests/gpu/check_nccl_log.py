"""Exit 0 when NCCL's own logs say in every rank that each variable was set by the environment to its value.

    python3 -m tests.gpu.check_nccl_log FOLDER RANKS NAME=VALUE…

FOLDER holds a file for each process (NCCL_DEBUG_FILE=…/nccl.%p.log). Prints a row for each process and variable.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_SET = re.compile(r"(NCCL_[A-Z0-9_]+) set by environment to ([^\s,]+)")
_DEVICE = re.compile(r"\[(\d+)\] NCCL INFO")


def read(text: str) -> tuple[set[str], dict[str, str]]:
    """Return the devices that a log is about, and what it says that the environment set."""
    return set(_DEVICE.findall(text)), {name: value.rstrip(".") for name, value in _SET.findall(text)}


def main() -> int:
    """Compare all logs with what is wanted."""
    folder, ranks, *pairs = sys.argv[1:]
    wanted = dict(pair.split("=", 1) for pair in pairs)
    seen: set[str] = set()
    wrong = 0
    for path in sorted(Path(folder).glob("nccl.*.log")):
        devices, found = read(path.read_text(errors="replace"))
        if not devices:
            continue
        seen |= devices
        for name, value in wanted.items():
            said = found.get(name)
            wrong += said != value
            print(f"{path.name} device {','.join(sorted(devices))}: {name} {said or 'not mentioned'}")
    missing = {str(rank) for rank in range(int(ranks))} - seen
    if missing:
        print(f"no log of device {', '.join(sorted(missing))}")
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
