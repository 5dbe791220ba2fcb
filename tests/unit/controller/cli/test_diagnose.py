"""``diagnose``: what it reads, what it prints, how it ends."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from controller import cli
from controller.cli import diagnose
from controller.exits import Exit
from controller.playbook_events import TaskFailure
from controller.playbooks import PlaybookRun

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA = Path(__file__).parents[3] / "data" / "diagnosis"


def test_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diagnose", str(DATA / "draft-context-kimi.log")]) == Exit.RUN_FAILED
    output = capsys.readouterr().out
    assert output.startswith("class       draft-context (")
    assert "phase draft_weights" in output
    assert "cause       TP3: ValueError" in output
    assert "docs/runbooks/draft-context.md" in output


def test_a_healthy_server_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DATA / "healthy-baseline.log").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert cli.main(["diagnose", "-", "--json"]) == Exit.OK
    document = json.loads(capsys.readouterr().out)
    assert (document["class"], document["phase"], document["confidence"]) == ("healthy", "serving", "high")


def test_secrets_and_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_text("sglang==0.5.15\nsglang: error: unrecognized arguments: --api-key s3cret\n")
    cli.main(["diagnose", str(log)])
    output = capsys.readouterr().out
    assert "s3cret" not in output
    assert "version     0.5.15" in output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["diagnose"], "give one thing to diagnose"),
        (["diagnose", "x", "--host"], "give one thing to diagnose"),
        (["diagnose", "/no/such/log"], "/no/such/log cannot be read (No such file or directory)"),
        (["diagnose", "/dev/null"], "/dev/null is empty"),
        (["diagnose", "/dev/null", "--limit", "a"], "belong to --host"),
    ],
)
def test_bad_input(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == Exit.USAGE
    assert sentence in capsys.readouterr().err


class FetchingPlaybooks:
    """Fetches a log of the tests, or fails."""

    log: Path | None = None

    def __init__(self, target: object) -> None:
        del target

    def run(self, playbook: str, *, directory: Path, extra_vars: Mapping[str, Any]) -> PlaybookRun:
        del directory
        if self.log is None:
            return PlaybookRun(playbook, "failed", 2, 1.0, failure=TaskFailure("", "", "there is no log", {}))
        Path(extra_vars["diagnose_log_dest"]).write_bytes(self.log.read_bytes())
        return PlaybookRun(playbook, "ok", 0, 1.0)


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(diagnose, "Playbooks", FetchingPlaybooks)
    path = tmp_path / "hosts.yml"
    path.write_text("all: {children: {inference: {hosts: {box: {ansible_host: 192.0.2.1}}}}}\n")
    return str(path)


def test_the_log_of_a_host(inventory: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(FetchingPlaybooks, "log", DATA / "kv-oom-increase.log")
    assert cli.main(["diagnose", "--host", "--inventory", inventory]) == Exit.RUN_FAILED
    assert "kv-oom" in capsys.readouterr().out


def test_a_host_without_a_log(inventory: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diagnose", "--host", "--inventory", inventory]) == Exit.TARGET
    assert "the log on box (192.0.2.1) cannot be fetched: there is no log" in capsys.readouterr().err
