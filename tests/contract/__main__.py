"""``python -m tests.contract``: check SGLang's wheels against what this repository relies on."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import controller.collection  # noqa: F401 - makes the shared code of the collection importable
from tests.contract import release_data, report
from tests.contract.wheels import VERSIONS, FetchError, open_wheel


def main() -> int:
    """Run; 0 when everything holds, 1 when an expectation does not, 2 when wheels cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m tests.contract", description=__doc__)
    parser.add_argument(
        "what",
        choices=["check", "table", "data"],
        help="check: print what does not hold; table: also write docs/reference/compatibility.md and recorded.json; "
        "data: write plugins/module_utils/preflight_release_data.py",
    )
    parser.add_argument("--versions", nargs="*", default=list(VERSIONS), help="only these (check)")
    parser.add_argument("--offline", action="store_true", help="use the cache only")
    given = parser.parse_args()
    versions = given.versions if given.what == "check" else VERSIONS
    try:
        if given.what == "data":
            text = release_data.render(open_wheel(version, offline=given.offline) for version in versions)
            release_data.DESTINATION.write_text(text, encoding="utf-8")
            subprocess.run(
                [Path(sys.executable).parent / "ruff", "format", "--quiet", release_data.DESTINATION], check=True
            )
            return 0
        reports = [report.examine(open_wheel(version, offline=given.offline)) for version in versions]
    except FetchError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    if given.what == "table":
        report.save(reports)
        report.TABLE.write_text(report.render(reports), encoding="utf-8")
    found = report.violations(reports)
    sys.stdout.write("".join(f"{sentence}\n" for sentence in found) or f"{len(reports)} versions: all as expected\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
