from __future__ import annotations

import csv
import html.parser
import io
import json
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from controller.exits import InputError
from controller.report.csv_files import cells_csv, requests_csv
from controller.report.facts import collect
from controller.report.files import write_report
from controller.report.formats import FORMATS
from controller.report.html import html_report
from controller.report.markdown import markdown_report
from tests.unit.controller.report.sample import BASELINE, EVIL, FASTER, SLOWER, story, write_sweep

if TYPE_CHECKING:
    from pathlib import Path


class Tags(html.parser.HTMLParser):
    """Collects elements; knows which are never closed."""

    VOID = frozenset({"meta", "br", "link", "img", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(page: str) -> Tags:
    parser = Tags()
    parser.feed(page)
    parser.close()
    assert not parser.open
    return parser


def test_every_file_is_written_and_private(tmp_path: Path) -> None:
    facts = collect(story(tmp_path / "sweep"))
    written = write_report(facts, tmp_path / "out", FORMATS)
    assert {path.name for path in written} == {
        "report.html", "report.md", "cells.csv", "requests.csv", "throughput.svg", "throughput.png", "adaptive.json",
    }  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
    assert not list((tmp_path / "out").glob(".*"))
    assert (tmp_path / "out" / "throughput.png").read_bytes().startswith(b"\x89PNG")
    root = ET.fromstring((tmp_path / "out" / "throughput.svg").read_text())  # noqa: S314  # our own file
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    assert "var(--" not in (tmp_path / "out" / "throughput.svg").read_text()


def test_the_page_is_one_well_formed_file_without_anything_from_elsewhere(tmp_path: Path) -> None:
    page = html_report(collect(story(tmp_path)), directory=tmp_path)
    found = tags(page).found
    assert [tag for tag, _ in found].count("script") == 1
    for tag, attributes in found:
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        address = attributes.get("href")
        assert address is None or re.match(r"(#|cells/)", address), address
    assert "script-src 'sha256-" in page
    assert "<h1>" in page


def test_text_from_logs_and_arms_never_becomes_markup(tmp_path: Path) -> None:
    facts = collect(story(tmp_path))
    page = html_report(facts, directory=tmp_path)
    assert EVIL not in page
    assert "&lt;script&gt;document.title" in page
    assert "<img" not in page
    assert "hunter22" not in page
    text = markdown_report(facts, figure="throughput.svg")
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert EVIL not in outside
    assert "hunter22" not in text
    for table in (cells_csv(facts), requests_csv(facts)):
        for row in csv.reader(io.StringIO(table)):
            assert not any(value.startswith(("=", "@", "\t")) for value in row)


def test_the_verdict_stands_on_top_and_faults_before_it(tmp_path: Path) -> None:
    page = html_report(collect(story(tmp_path / "a")), directory=tmp_path / "a")
    assert page.index("These figures are simulated") < page.index('<p class="verdict">')
    lengths = {"steps-2": 1.0}
    dead = write_sweep(tmp_path / "b", {"baseline": BASELINE, "steps-2": SLOWER}, lengths=lengths, simulated=False)
    page = html_report(collect(dead), directory=dead)
    assert page.index('class="faults"') < page.index('<p class="verdict">')
    assert "The same in 2 more launches of this arm." in page
    assert "simulated</caption>" not in page
    assert 'role="note"' not in page


def test_links_lead_to_the_logs_from_wherever_the_page_is(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "sweep", {"baseline": BASELINE})
    facts = collect(directory)
    assert 'href="cells/b01-baseline/server.log"' in html_report(facts, directory=directory)
    assert 'href="../sweep/cells/b01-baseline/server.log"' in html_report(facts, directory=tmp_path / "out")


def test_a_sweep_without_a_measurement_has_a_report(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path, {"baseline": BASELINE})
    (directory / "journal.jsonl").unlink()
    facts = collect(directory)
    assert "Nothing has been measured yet" in html_report(facts, directory=directory)
    assert "Nothing has been measured yet" in markdown_report(facts, figure=None)
    assert {path.name for path in write_report(facts, directory, FORMATS)} == {
        "report.html", "report.md", "cells.csv", "requests.csv",
    }  # fmt: skip


def test_a_stale_adaptive_file_is_removed(tmp_path: Path) -> None:
    facts = collect(write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": FASTER, "steps-3": SLOWER}))
    write_report(facts, tmp_path, ("adaptive",))
    assert json.loads((tmp_path / "adaptive.json").read_text()) == {"1": {"candidate_steps": [2]}}
    facts = collect(write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": SLOWER}, lengths={"steps-2": 1.0}))
    assert write_report(facts, tmp_path, ("adaptive",)) == []
    assert not (tmp_path / "adaptive.json").exists()


def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    facts = collect(write_sweep(tmp_path / "sweep", {"baseline": BASELINE}))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--output"):
        write_report(facts, tmp_path / "file", ("csv",))


def test_several_concurrencies_have_a_figure_each(tmp_path: Path) -> None:
    facts = collect(write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": SLOWER}, levels=(1, 8)))
    names = {path.name for path in write_report(facts, tmp_path, ("svg", "markdown"))}
    assert names == {"throughput-c1.svg", "throughput-c8.svg", "report.md"}
    assert "](throughput-c1.svg)" in (tmp_path / "report.md").read_text()
    page = html_report(facts, directory=tmp_path)
    assert "<small>Concurrency 8</small>" in page


def test_ids_are_unique_and_references_resolve(tmp_path: Path) -> None:
    page = html_report(collect(story(tmp_path)), directory=tmp_path)
    found = tags(page).found
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in found:
        for name in ("aria-labelledby", "href"):
            value = attributes.get(name) or ""
            if name == "aria-labelledby" and value:
                assert value in ids
            if value.startswith("#"):
                assert value[1:] in ids
