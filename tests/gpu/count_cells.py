"""Exit 0 when every cell of a sweep's journal ended as done.

python3 count_cells.py JOURNAL
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> int:
    """Read the last state of each cell and print a line for each."""
    states: dict[str, str] = {}
    for line in Path(sys.argv[1]).read_text().splitlines():
        record = json.loads(line)
        if "cell" in record and "state" in record:
            states[record["cell"]] = record["state"]
    for cell, state in states.items():
        print(f"{cell}: {state}")
    return 0 if states and set(states.values()) == {"done"} else 1


if __name__ == "__main__":
    sys.exit(main())
