"""``doctor`` with Ansible replaced: its table, its JSON and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller import cli
from controller.cli import doctor
from controller.exits import Exit
from controller.inventory import Target
from controller.playbook_events import TaskFailure
from controller.playbooks import PlaybookRun


def row(name: str, ok: bool | None, severity: str = "error") -> dict[str, Any]:
    words = {"detail": "it [is] so", "remedy": "do this", "runbook": "docs/runbooks/preflight.md"}
    return {"name": name, "ok": ok, "severity": severity, "host": "box", **words}


def run(monkeypatch: pytest.MonkeyPatch, played: PlaybookRun, *options: str) -> tuple[int, dict[str, Any]]:
    given: dict[str, Any] = {}

    class OneRun:
        def __init__(self, _: Target) -> None:
            pass

        def run(self, playbook: str, *, directory: Path, extra_vars: dict[str, Any]) -> PlaybookRun:
            given.update(extra_vars, playbook=playbook, directory=directory)
            return played

    monkeypatch.setattr(doctor, "Playbooks", OneRun)
    monkeypatch.setattr(doctor, "find_target", lambda *_, **__: Target(Path("/i"), "box", {}))
    return cli.main(["doctor", *options]), given


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([row("a", True), row("b", None)], 0),
        ([row("a", True), row("b", False, "warning")], 1),
        ([row("a", False, "warning"), row("b", False)], 2),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: list[dict[str, Any]], code: int
) -> None:
    played = PlaybookRun("preflight.yml", "ok", 0, 1.0, results={"preflight_info": {"checks": rows}})
    assert run(monkeypatch, played)[0] == code
    text = capsys.readouterr().out
    assert "it [is] so" in text
    assert f"{len(rows)} checks" in text
    found, given = run(monkeypatch, played, "--json", "--allreduce")
    document = json.loads(capsys.readouterr().out)
    assert found == code
    assert document["ok"] == (code == 0)
    assert document["checks"] == rows
    assert given["preflight_allreduce"] is True
    assert given["preflight_fail_on"] == "never"


def test_a_target_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    played = PlaybookRun("preflight.yml", "unreachable", 4, 1.0, failure=TaskFailure("t", "m", "no route"))
    assert run(monkeypatch, played)[0] == Exit.TARGET
    assert "no route" in capsys.readouterr().err
