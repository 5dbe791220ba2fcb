"""``watch`` with Ansible replaced: one look, lines, and what it says when nothing is there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from controller import cli
from controller.cli import watch as command
from controller.exits import Exit, TargetError
from controller.inventory import Target
from controller.playbook_events import TaskFailure
from controller.playbooks import PlaybookRun
from tests.unit.controller.watch.test_server import INFO, METRICS, serving

if TYPE_CHECKING:
    from collections.abc import Callable

LAUNCH = {"launch_id": "x", "argv": ["python3", "--port", "1"], "log_file": "", "pid": 1, "owner": ""}


class Answers:
    """Playbooks that give one answer to every call."""

    def __init__(self, health: dict[str, Any] | None, url: str = "", log: str = "", **more: Any) -> None:
        said = {"url": url, "log_file": log, "nvidia_smi": "", "connection": "local", "python": sys.executable}
        results = {"debug": {"msg": said}} | ({"sglang_health": health} if health is not None else {})
        self.answer = PlaybookRun("watch.yml", more.pop("status", "ok"), 0, 1.0, results=results, **more)
        self.calls: list[str] = []
        self.error: TargetError | None = None

    def run(self, playbook: str, *, on_phase: Callable[[str], None], **_: Any) -> PlaybookRun:
        self.calls.append(playbook)
        if self.error:
            raise self.error
        on_phase("serving")
        return self.answer


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], Answers]:
    def replace(answers: Answers) -> Answers:
        monkeypatch.setattr(command, "find_target", lambda *_, **__: Target(Path("inventory"), "box", {}))
        monkeypatch.setattr(command, "Playbooks", lambda _: answers)
        return answers

    return replace


def health(**more: Any) -> dict[str, Any]:
    return {"ready": True, "dead": False, "phase": "serving", "launch": LAUNCH, "elapsed_s": 5.0} | more


def test_one_look_as_json(
    use: Callable[[Answers], Answers], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "server.log"
    log.write_text("a line\n")
    with serving({"/metrics": METRICS, "/server_info": INFO}) as (url, asked):
        answers = use(Answers(health(), url, str(log)))
        assert cli.main(["watch", "--once", "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert answers.calls == ["watch"]
    assert (found["condition"], found["phase"]) == ("serving", "serving")
    assert found["tokens_per_s"] == pytest.approx(212.46, abs=0.01)
    assert found["acceptance_length"] == 1.0
    assert found["launch"]["age_s"] >= 5.0
    assert found["simulated"] is False
    assert "/health" not in asked


def test_one_look_at_nothing(use: Callable[[Answers], Answers], capsys: pytest.CaptureFixture[str]) -> None:
    use(Answers(health(ready=False, dead=True, phase="dead", launch=None), "http://127.0.0.1:9", "/nowhere"))
    assert cli.main(["watch", "--once"]) == Exit.OK
    text = capsys.readouterr().out
    assert "box (box): no server" in text
    assert "nothing runs here" in text


def test_a_target_that_cannot_be_reached(use: Callable[[Answers], Answers], capsys: pytest.CaptureFixture[str]) -> None:
    failure = TaskFailure("x", "y", "no route to host")
    answers = use(Answers(None, status="unreachable", failure=failure))
    assert cli.main(["watch", "--once"]) == Exit.TARGET
    assert "no route to host" in capsys.readouterr().err
    answers.error = TargetError("there is no playbook")
    assert cli.main(["watch", "--once"]) == Exit.TARGET
    assert "there is no playbook" in capsys.readouterr().err


def test_json_without_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["watch", "--json"]) == Exit.USAGE
    assert "--json belongs to --once" in capsys.readouterr().err


def test_lines_until_it_is_interrupted(
    use: Callable[[Answers], Answers], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []

    def echo(text: str) -> None:
        lines.append(text)
        if "212.5 tok/s" in text:
            raise KeyboardInterrupt
        assert len(lines) < 100, lines

    with serving({"/metrics": METRICS, "/server_info": INFO}) as (url, _):
        use(Answers(health(), url, "/nowhere"))
        monkeypatch.setattr(click, "echo", echo)
        assert cli.main(["watch", "--every", "0.2"]) == Exit.OK
    assert "box (box): serving; 212.5 tok/s; L 1.00 of at most 4; cycle 4.7 ms; requests 1 running" in lines[-1]
    assert capsys.readouterr().err == ""
