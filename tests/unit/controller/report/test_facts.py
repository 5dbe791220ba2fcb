from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.exits import InputError
from controller.report.facts import as_text, collect, phase_seconds
from controller.report.html import html_report
from controller.report.markdown import markdown_report
from controller.report.method import commands, method_facts
from controller.report.rows import COLUMNS, launch_rows, shown
from tests.unit.controller.report.sample import BASELINE, FAILURE, SLOWER, story, write_sweep

if TYPE_CHECKING:
    from pathlib import Path


def test_collect_reads_and_redacts(tmp_path: Path) -> None:
    facts = collect(story(tmp_path))
    assert len(facts.cells) == 12
    [[failed]] = facts.failed
    assert failed.failure_class == FAILURE["class"]
    assert "hunter22" not in str(failed.failure)
    assert failed.logs == ("cells/b02-steps-3/server.log",)
    measured = next(cell for cell in facts.cells if cell.cell_id == "b01-baseline")
    assert measured.phase_seconds == {"starting": 1.5, "weights": 3.5}
    assert facts.simulated
    assert facts.analysis is not None


def test_cells_that_failed_alike_are_shown_once(tmp_path: Path) -> None:
    same, other = dict(FAILURE), {**FAILURE, "sentence": "Another one."}
    failing = {"b01-steps-2": same, "b02-steps-2": same, "b03-steps-2": other}
    facts = collect(write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": SLOWER}, failing=failing))
    assert [[cell.cell_id for cell in cells] for cells in facts.failed] == [
        ["b01-steps-2", "b02-steps-2"],
        ["b03-steps-2"],
    ]
    markdown = markdown_report(facts, figure=None)
    assert "### b01-steps-2, b02-steps-2: " in markdown
    assert "b01-steps-2, b02-steps-2" in html_report(facts, directory=tmp_path)


def test_cells_alike_but_for_the_name_of_their_log_are_shown_once(tmp_path: Path) -> None:
    def failing(cell_id: str, attempt: str) -> dict[str, object]:
        return {**FAILURE, "sentence": f"The server died. See /logs/sweep-x-{cell_id}{attempt}.log."}

    arms = {"baseline": BASELINE, "steps-2": SLOWER}
    some = {"b01-steps-2": failing("b01-steps-2", ""), "b03-steps-2": failing("b03-steps-2", "-2")}
    facts = collect(write_sweep(tmp_path, arms, failing=some))
    assert [[cell.cell_id for cell in cells] for cells in facts.failed] == [["b01-steps-2", "b03-steps-2"]]


def test_nothing_measured_yet(tmp_path: Path) -> None:
    write_sweep(tmp_path, {"baseline": BASELINE})
    (tmp_path / "journal.jsonl").unlink()
    facts = collect(tmp_path)
    assert facts.analysis is None
    assert {cell.state for cell in facts.cells} == {"planned"}
    with pytest.raises(InputError):
        collect(tmp_path / "nowhere")


def test_phases_without_an_end_have_no_length() -> None:
    assert phase_seconds([{"name": "serving", "started_s": 1.0, "ended_s": None}]) == {}
    twice = [
        {"name": "weights", "started_s": 1.0, "ended_s": 2.0},
        {"name": "weights", "started_s": 3.0, "ended_s": 4.5},
    ]
    assert phase_seconds(twice) == {"weights": 2.5}
    assert as_text({"b": 1}) == '{"b": 1}'


def test_rows_have_one_line_for_each_launch_and_concurrency(tmp_path: Path) -> None:
    facts = collect(write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": SLOWER}, levels=(1, 8)))
    rows = launch_rows(facts)
    assert len(rows) == 12
    assert [row["order"] for row in rows] == sorted(row["order"] for row in rows)  # type: ignore[type-var]
    speeds = {row["tokens_per_s"] for row in rows if row["arm"] == "baseline"}
    assert {round(float(speed or 0), 3) for speed in speeds} == set(BASELINE)
    assert shown(COLUMNS[7], {"tokens_per_s": 61.234}) == "61.2"
    assert shown(COLUMNS[7], {"tokens_per_s": None}) == "-"


def test_how_it_was_measured_and_how_to_repeat_it(tmp_path: Path) -> None:
    facts = collect(write_sweep(tmp_path, {"baseline": BASELINE}, argv=["--api-key", "hunter22", "--tp-size", "8"]))
    told = dict(method_facts(facts))
    assert told["seed"] == "7"
    assert told["figures"].startswith("simulated")
    again = dict(commands(facts))
    assert again["the sweep again, same prompts and order"] == "python -m controller sweep --steps 2,3 --seed 7"
    assert "--tp-size 8" in again["server of baseline"]
    assert "hunter22" not in str(again)
