"""The report that a sweep leaves in its directory, and that no fault of it changes how the sweep ended."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from controller import cli
from controller.exits import Exit
from controller.report import files
from controller.sweep import prepare
from tests.unit.controller.sweep.fakes import FakeLoad, FakePlaybooks, broken, cancelled, healthy, record

FILES = {"report.html", "report.md", "cells.csv", "requests.csv", "throughput.svg", "throughput.png"}


@pytest.fixture
def playbooks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakePlaybooks:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    Path("hosts.yml").write_text("inference:\n  hosts:\n    box: {simulator_node: /node}\n")
    fake = FakePlaybooks()
    monkeypatch.setattr(prepare, "Playbooks", lambda *_, **__: fake)
    monkeypatch.setattr(
        prepare, "HttpLoad", lambda *_: FakeLoad(answer=lambda number: [record(warmup=number % 2 == 0)])
    )
    return fake


def sweep(*arguments: str) -> int:
    return cli.main(
        ["sweep", "-i", "hosts.yml", "--steps", "3", "--blocks", "1", "--dir", "one", "--no-confirm", *arguments]
    )


def test_the_report_is_in_the_directory_of_the_sweep(
    playbooks: FakePlaybooks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep() == Exit.OK
    assert {path.name for path in Path("one").iterdir()} >= FILES
    assert capsys.readouterr().err.splitlines()[-1] == "report: one/report.html"
    assert len(playbooks.restarts) == 2


def test_it_can_be_left_out(playbooks: FakePlaybooks, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep("--no-report") == Exit.OK
    assert not {path.name for path in Path("one").iterdir()} & FILES
    assert "report" not in capsys.readouterr().err
    assert len(playbooks.restarts) == 2


def test_json_stays_one_document(playbooks: FakePlaybooks, capsys: pytest.CaptureFixture[str]) -> None:
    playbooks.answer = lambda number, variables: broken() if number == 1 else healthy(variables)
    assert sweep("--json") == Exit.RUN_FAILED
    captured = capsys.readouterr()
    assert json.loads(captured.out)["exit_code"] == 1
    assert "report: one/report.html" in captured.err
    assert "GPU 3 is full" in Path("one/report.md").read_text()


def test_an_interrupted_sweep_reports_what_it_has(playbooks: FakePlaybooks, capsys: pytest.CaptureFixture[str]) -> None:
    playbooks.answer = lambda number, variables: cancelled() if number == 1 else healthy(variables)
    sweep()
    assert "report: one/report.html" in capsys.readouterr().err
    assert Path("one/cells.csv").exists()


def test_without_a_measurement_there_is_nothing_to_report(
    playbooks: FakePlaybooks, capsys: pytest.CaptureFixture[str]
) -> None:
    playbooks.answer = lambda *_: cancelled()
    sweep()
    assert "no report yet: nothing has been measured" in capsys.readouterr().err
    assert not Path("one/report.html").exists()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "(No space left on device)"),
        (ZeroDivisionError("a chart"), "(ZeroDivisionError: a chart)"),
        (KeyboardInterrupt(), "(interrupted)"),
    ],
)
def test_a_report_that_fails_is_said_and_changes_nothing(
    fault: BaseException,
    said: str,
    playbooks: FakePlaybooks,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(files, "write_private", fail)
    assert sweep() == Exit.OK
    last = capsys.readouterr().err.splitlines()[-1]
    assert said in last
    assert last.endswith("write it with: python -m controller report one")
    assert len(playbooks.restarts) == 2


def test_a_reader_who_has_gone_costs_no_report(playbooks: FakePlaybooks, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("controller.cli.show.show_sweep", gone)
    monkeypatch.setattr("os.dup2", lambda *_: None)
    assert sweep() == Exit.OK
    assert Path("one/report.html").exists()
    assert len(playbooks.restarts) == 2
