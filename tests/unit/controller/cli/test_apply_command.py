"""``apply``, ``history`` and ``rollback`` with Ansible and the load replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from controller import cli
from controller.apply.change import End
from controller.apply.history import History
from controller.cli import deployments, status
from controller.exits import Exit
from controller.inventory import Target, read_target
from controller.load.records import RequestRecord
from controller.playbook_events import TaskTime
from controller.playbooks import PlaybookRun
from controller.sweep.http_load import HttpLoad
from tests.unit.controller.apply.recorded_sweep import BASELINE, EQUAL, SLOWER, write_sweep
from tests.unit.controller.report.sample import requests

HEALTH = {"ready": True, "phase": "serving", "url": "http://server", "launch": {"argv": ["other"]}, "server": {}}


class Ansible:
    """Playbooks that all end well."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def run(self, playbook: str, **more: Any) -> PlaybookRun:
        more.get("on_phase", lambda _: None)("weights")
        task = TaskTime("t", "sglang_ops.eagle3.sglang_process", 0.1, "ok")
        return PlaybookRun(f"{playbook}.yml", "ok", 0, 1.0, (task,), {"sglang_health": HEALTH})


class Server:
    """Answers every run at a speed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens_per_s = 95.5
        monkeypatch.setattr(HttpLoad, "flush_cache", lambda *_: None)
        monkeypatch.setattr(HttpLoad, "run", self.run)

    def run(self, base_url: str, *, warmup: bool, on_tokens: Any, **more: Any) -> list[RequestRecord]:
        del base_url, more
        on_tokens(100, 1.0)
        rows = requests(self.tokens_per_s, 1.8, count=6)
        return [RequestRecord.from_json(row | {"text_sha256": "a", "warmup": warmup}) for row in rows]


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(deployments, "Playbooks", Ansible)
    monkeypatch.setattr(status, "Playbooks", Ansible)
    path = tmp_path / "hosts.yml"
    path.write_text("inference:\n  hosts:\n    box: {ansible_host: 192.0.2.9}\n")
    return path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def call(*words: object) -> int:
    return cli.main([str(word) for word in words])


def test_apply_history_and_rollback(
    inventory: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = write_sweep(tmp_path / "sweep", inventory=str(inventory))
    assert call("history", "-i", inventory) == Exit.OK
    assert "nothing was deployed on box" in capsys.readouterr().out

    assert call("apply", sweep, "--yes") == Exit.OK  # the inventory is the sweep's
    out, err = capsys.readouterr()
    assert "canary at concurrency 1: 95.5 tok/s, predicted 95.5" in out
    assert "it was launched otherwise than in the sweep" in out
    assert "deployment 1 (steps-3 of sweep S1) serves on box (192.0.2.9); take it back with: python -m" in out
    assert "running playbooks/deploy.yml" in err
    assert "  weights" in err
    written = (tmp_path / "host_vars" / "box" / "sglang_eagle3.yml").read_text()
    assert "sglang_server_speculative_num_steps: 3" in written

    server.tokens_per_s = 40.0
    assert call("apply", sweep, "--yes", "--json") == Exit.RUN_FAILED
    document = json.loads(capsys.readouterr().out)
    assert document["outcome"] == "rolled_back"
    assert document["launches"] == 2
    assert document["changes"] == []
    assert document["canary"][0]["miss"]["larger_part"] == "cycle"
    assert "(ln L)" in document["messages"][-1]
    assert "(-ln C)" in document["messages"][-1]

    assert call("rollback", "-i", inventory) == Exit.OK
    assert "0, before the first deployment" in capsys.readouterr().out
    assert not (tmp_path / "host_vars" / "box").exists()
    assert call("rollback", "1", "-i", inventory, "--json") == Exit.OK
    assert json.loads(capsys.readouterr().out)["outcome"] == "applied"

    assert call("history", "-i", inventory, "--json") == Exit.OK
    kept = json.loads(capsys.readouterr().out)
    assert [one["state"] for one in kept["deployments"]] == ["applied", "rolled_back", "applied", "applied"]
    assert kept["deployments"][0]["settings"]["sglang_server_speculative_num_steps"] == 3
    assert kept["messages"] == []
    assert call("history", "-i", inventory) == Exit.OK
    shown = capsys.readouterr().out
    for word in ("steps-3 of", "CONFIRMED", "rolled", "95.5", "back to"):
        assert word in shown


def test_nobody_to_ask_is_bad_usage_and_shows_what_would_change(
    inventory: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del server
    sweep = write_sweep(tmp_path / "sweep")
    assert call("apply", sweep, "-i", inventory) == Exit.USAGE
    err = capsys.readouterr().err
    assert "sglang_server_max_running_requests: not set -> 16" in err
    assert "give --yes" in err
    assert History(read_target(inventory)).deployments() == []

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert call("apply", sweep, "-i", inventory) == Exit.RUN_FAILED
    assert "the answer was no" in capsys.readouterr().err
    assert History(read_target(inventory)).deployments() == []
    monkeypatch.setattr("click.confirm", lambda *_, **__: True)
    assert call("apply", sweep, "-i", inventory, "--arm", "baseline", "--force") in (Exit.OK, Exit.RUN_FAILED)
    assert "no variable changes" not in capsys.readouterr().err


def test_equal_changes_nothing_and_hurts_is_refused(
    inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    equal = write_sweep(tmp_path / "equal", {"baseline": BASELINE, "steps-3": EQUAL}, {})
    assert call("apply", equal, "-i", inventory, "--json") == Exit.OK
    document = json.loads(capsys.readouterr().out)
    assert document["outcome"] == "unchanged"
    assert document["messages"][0].startswith("Nothing was changed. Use baseline")
    hurts = write_sweep(tmp_path / "hurts", {"baseline": BASELINE, "steps-3": SLOWER}, {})
    assert call("apply", hurts, "-i", inventory, "--yes") == Exit.RUN_FAILED
    assert "steps-3 HURTS" in capsys.readouterr().err
    assert call("apply", hurts, "-i", inventory, "--yes", "--json") == Exit.RUN_FAILED
    assert json.loads(capsys.readouterr().out)["outcome"] == "refused"
    assert not (tmp_path / "host_vars").exists()


def test_bad_input_is_exit_code_2(
    inventory: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del server
    sweep = write_sweep(tmp_path / "sweep")
    for words in (
        ("apply", "/nowhere", "-i", inventory),
        ("apply", tmp_path, "-i", inventory),
        ("rollback", "-i", inventory),
        ("rollback", "7", "-i", inventory),
    ):
        assert call(*words) == Exit.USAGE
        captured = capsys.readouterr()
        assert captured.err.strip().splitlines()[-1].startswith("error: ")
        assert "Traceback" not in captured.err
    by_hand = tmp_path / "host_vars" / "box.yml"
    by_hand.parent.mkdir()
    by_hand.write_text("---\nsglang_server_speculative_num_steps: 2\n")
    assert call("apply", sweep, "-i", inventory, "--yes") == Exit.USAGE
    assert "sglang_server_speculative_num_steps in" in (err := capsys.readouterr().err)
    assert "box.yml, line 2" in err
    assert History(read_target(inventory)).deployments() == []


def test_what_was_cut_off_is_told_by_every_command(
    inventory: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del server
    sweep = write_sweep(tmp_path / "sweep")
    with History(read_target(inventory)).open() as journal:
        journal.append(
            "applying", number=1, action="apply", who="me", target="box", inventory="/i", before=None, after="a: 1\n",
            settings={"a": 1}, file="/f", pid=os.getpid(), start_ticks=-1, arm="steps-3", sweep_id="S1",
        )  # fmt: skip
    assert call("apply", sweep, "-i", inventory, "--yes") == Exit.RUN_FAILED
    told = [capsys.readouterr().err]
    assert call("history", "-i", inventory) == Exit.OK
    told.append(capsys.readouterr().err)
    assert call("status", "-i", inventory) == Exit.OK
    told.append(capsys.readouterr().out)
    for text in told:
        assert "deployment 1 (steps-3 of sweep S1) on box was cut off" in text
        assert "Take it back with: python -m controller rollback -i " in text
    assert call("status", "-i", inventory, "--json") == Exit.OK
    assert "was cut off" in json.loads(capsys.readouterr().out)["deployments"][0]
    with History(read_target(inventory)).open() as journal:
        journal.append("failed", number=1, reason="no route")
    assert call("history", "-i", inventory) == Exit.OK
    assert "failed, the server may be down: no route; try: python -m controller rollback" in capsys.readouterr().err


def test_a_sentence_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = f"tree=steps:3,MODE:key:2 [bold]serves[/] in {'a' * 200}."
    end = End(1, "applied", Exit.OK, (sentence,), 1)
    deployments.show_end(end, Target(Path("hosts.yml"), "box", {}), as_json=False, more={})
    assert capsys.readouterr().out == f"{sentence}\n"
