"""Exit 0 when `controller doctor --json` says of the named check what is expected, and print what is not in order.

python3 check_doctor.py DOCTOR_JSON CHECK ok|bad
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> int:
    """Print every check that is not in order and the named one, and compare that with what is expected."""
    path, name, expected = sys.argv[1:]
    answer = json.loads(Path(path).read_text())
    said = set()
    for check in answer["checks"]:
        if check["ok"] is False or check["name"] == name:
            print(f"{check['severity']} {check['name']}: {check['detail']}")
        if check["name"] == name:
            said.add(check["ok"])
    return 0 if said == {expected == "ok"} else 1


if __name__ == "__main__":
    sys.exit(main())
