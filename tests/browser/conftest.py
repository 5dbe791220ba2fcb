"""A browser for the tests of one run, and a report to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controller.report.facts import collect
from controller.report.files import write_report
from tests.browser.webdriver import Browser, missing
from tests.unit.controller.report.sample import BASELINE, SLOWER, story, write_sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Skips where Chromium is missing."""
    absent = missing()
    if absent:
        pytest.skip(absent)
    with Browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated sweep with arms that hurt, an arm of an evil name and a failed cell with an evil log."""
    directory = story(tmp_path_factory.mktemp("story"))
    write_report(collect(directory), directory, ("html",))
    return directory / "report.html"


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep with a dead draft, at two concurrencies."""
    directory = tmp_path_factory.mktemp("faulty")
    speeds = {"baseline": BASELINE, "steps-2": SLOWER}
    write_sweep(directory, speeds, lengths={"steps-2": 1.0}, levels=(1, 8), simulated=False)
    write_report(collect(directory), directory, ("html",))
    return directory / "report.html"
