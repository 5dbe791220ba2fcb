"""What holds for all tests: no time limit on one example, and in CI no skip.

What tests need is installed in CI, so whatever is skipped there has not been tested.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator

MAY_SKIP = ("CONTROLLER_FAULTS=all", "freezer")
"""Words in the reasons of skips that nothing to be installed can help: slow on purpose, or not of this kernel."""


# A busy machine is slow, and in a fresh clone the first text that is drawn costs seconds (a table of all characters).
settings.register_profile(
    "any-machine",
    settings.get_profile(settings.get_current_profile_name()),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any-machine")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a skip an error where ``CI`` is true, whichever way the test came to be skipped."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if not any(words in reason for words in MAY_SKIP):
            report.outcome = "failed"
            report.longrepr = f"in CI nothing may be skipped: {reason}"
    return report
