"""What the suite makes of a skip: a reason on a laptop, a failure in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEST = """
import pytest
@pytest.mark.skipif(True, reason={reason!r})
def test_by_a_mark(): ...
def test_by_a_call():
    pytest.skip({reason!r})
"""


@pytest.mark.parametrize(
    ("ci", "reason", "ending"),
    [
        ("", "needs root", "2 skipped in"),
        ("true", "needs root", "1 failed, 1 error in"),
        ("true", "slow: CONTROLLER_FAULTS=all runs it", "2 skipped in"),
    ],
)
def test_a_skip_is_a_failure_in_ci(tmp_path: Path, ci: str, reason: str, ending: str) -> None:
    path = tmp_path / "test_one.py"
    path.write_text(TEST.format(reason=reason))
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", os.devnull]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(path)],
        env=os.environ | {"CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ending in done.stdout, done.stdout + done.stderr
    assert ("nothing may be skipped: Skipped: needs root" in done.stdout) is ("failed" in ending)
