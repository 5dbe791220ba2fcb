"""Exit 0 when `controller doctor --json` says no to the named check, and print what it says.

python3 check_is_bad.py DOCTOR_JSON CHECK
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> int:
    """Print every check that is not in order, and look for the named one among them."""
    answer = json.loads(Path(sys.argv[1]).read_text())
    bad = [check for check in answer["checks"] if check["ok"] is False]
    for check in bad:
        print(f"{check['severity']} {check['name']}: {check['detail']}")
    return 0 if sys.argv[2] in {check["name"] for check in bad} else 1


if __name__ == "__main__":
    sys.exit(main())
