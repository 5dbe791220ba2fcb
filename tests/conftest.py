"""In CI a skip is a failure: what tests need is installed there, so whatever is skipped has not been tested."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

MAY_SKIP = ("CONTROLLER_FAULTS=all", "freezer")
"""Words in the reasons of skips that nothing to be installed can help: slow on purpose, or not of this kernel."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a skip an error where ``CI`` is set, whichever way the test came to be skipped."""
    report = yield
    if report.skipped and os.environ.get("CI") and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if not any(words in reason for words in MAY_SKIP):
            report.outcome = "failed"
            report.longrepr = f"in CI nothing may be skipped: {reason}"
    return report
