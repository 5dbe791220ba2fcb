"""The command ``sweep`` from words to report, with Ansible and the load replaced."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from controller import cli
from controller.exits import Exit
from controller.sweep import prepare
from tests.unit.controller.sweep.fakes import FakeLoad, FakePlaybooks, broken, healthy, record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "hosts.yml"
    path.write_text("inference:\n  hosts:\n    box: {ansible_host: 192.0.2.9, simulator_node: /node}\n")
    return str(path)


@pytest.fixture
def playbooks(monkeypatch: pytest.MonkeyPatch) -> FakePlaybooks:
    fake = FakePlaybooks()
    monkeypatch.setattr(prepare, "Playbooks", lambda *_, **__: fake)
    monkeypatch.setattr(
        prepare, "HttpLoad", lambda *_: FakeLoad(answer=lambda number: [record(warmup=number % 2 == 0)])
    )
    return fake


def sweep(inventory: str, *arguments: str) -> int:
    return cli.main(["sweep", "-i", inventory, *arguments])


def test_a_sweep_prints_its_report(
    inventory: str, playbooks: FakePlaybooks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(inventory, "--steps", "2,3", "--blocks", "2", "--dir", "one") == Exit.OK
    captured = capsys.readouterr()
    for arm in ("baseline", "steps-2", "steps-3"):
        assert arm in captured.out
    assert "simulated" in captured.out
    assert "every figure is a simulated one" in captured.err
    assert "6 launches to do" in captured.err
    assert "kept in one" in captured.err
    assert len(playbooks.restarts) == 6
    assert cli.main(["report", "one"]) == Exit.OK
    assert capsys.readouterr().out == captured.out


def test_json_is_one_document_on_standard_output(
    inventory: str, playbooks: FakePlaybooks, capsys: pytest.CaptureFixture[str]
) -> None:
    playbooks.answer = lambda number, variables: broken() if number == 1 else healthy(variables)
    assert sweep(inventory, "--steps", "3", "--blocks", "1", "--dir", "one", "--json") == Exit.RUN_FAILED
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == 1
    assert document["simulated"] is True
    assert sorted(cell["state"] for cell in document["cells"]) == ["done", "failed"]
    assert "--resume one" in document["messages"][-1]
    assert document["analysis"]["simulated"] is True


def test_a_resumed_sweep_says_what_it_reuses(
    inventory: str, playbooks: FakePlaybooks, capsys: pytest.CaptureFixture[str]
) -> None:
    playbooks.answer = lambda number, variables: broken() if number == 1 else healthy(variables)
    assert sweep(inventory, "--steps", "3", "--blocks", "1", "--dir", "one") == Exit.RUN_FAILED
    assert "failed (oom): GPU 3 is full." in capsys.readouterr().err
    playbooks.answer = lambda _, variables: healthy(variables)
    assert sweep(inventory, "--resume", "one") == Exit.OK
    err = capsys.readouterr().err
    assert "1 finished cell is reused from the earlier run, not measured again" in err
    assert "attempt 2" in err
    assert len(playbooks.restarts) == 3


def test_a_sweep_of_a_simulated_node_of_ones_own_is_resumed_on_that_node(
    inventory: str, playbooks: FakePlaybooks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(inventory, "--steps", "3", "--blocks", "1", "--dir", "one") == Exit.OK
    assert cli.main(["sweep", "--resume", "one"]) == Exit.OK, capsys.readouterr().err
    assert "2 finished cells are reused" in capsys.readouterr().err
    assert len(playbooks.restarts) == 2


def test_a_sweep_directory_is_not_used_twice(
    inventory: str, playbooks: FakePlaybooks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(inventory, "--steps", "3", "--blocks", "1", "--dir", "one") == Exit.OK
    assert sweep(inventory, "--steps", "3", "--blocks", "1", "--dir", "one") == Exit.USAGE
    assert "holds a sweep already" in capsys.readouterr().err
    assert len(playbooks.restarts) == 2


def test_changed_prompts_or_another_machine_are_not_mixed(
    inventory: str, playbooks: FakePlaybooks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(inventory, "--steps", "3", "--blocks", "1", "--dir", "one") == Exit.OK
    other = tmp_path / "other.yml"
    other.write_text("inference:\n  hosts:\n    box: {}\n")
    assert sweep(str(other), "--resume", "one") == Exit.USAGE
    assert "not mixed" in capsys.readouterr().err
    prompts = tmp_path / "one" / "prompts.jsonl"
    lines = prompts.read_text().splitlines(keepends=True)
    prompts.write_text("".join(reversed(lines)))
    assert sweep(inventory, "--resume", "one") == Exit.USAGE
    assert "different prompts" in capsys.readouterr().err
    prompts.write_text("garbage\n")
    assert sweep(inventory, "--resume", "one") == Exit.USAGE
    assert len(playbooks.restarts) == 2


def test_a_sweep_killed_before_its_first_record_can_be_resumed(
    inventory: str, playbooks: FakePlaybooks, tmp_path: Path
) -> None:
    assert sweep(inventory, "--steps", "3", "--blocks", "1", "--dir", "one") == Exit.OK
    for text in (None, "", '{"kind":"swe'):
        journal = tmp_path / "one" / "journal.jsonl"
        journal.unlink()
        if text is not None:
            journal.write_text(text)
        before = len(playbooks.restarts)
        assert sweep(inventory, "--resume", "one") == Exit.OK
        assert len(playbooks.restarts) - before == 2


def test_the_default_directory_is_named_by_the_time(inventory: str, playbooks: FakePlaybooks, tmp_path: Path) -> None:
    assert sweep(inventory, "--steps", "3", "--blocks", "1", "--no-baseline") == Exit.OK
    (folder,) = (tmp_path / "sweeps").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert playbooks.stops


def test_nowhere_to_write_is_exit_code_6(
    inventory: str, playbooks: FakePlaybooks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert sweep(inventory, "--steps", "3", "--dir", "file/one") == Exit.JOURNAL
    assert "nothing was started" in capsys.readouterr().err
    assert playbooks.calls == []


def test_a_workload_of_ones_own(
    inventory: str, playbooks: FakePlaybooks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({"text": f"prompt {number}"}) + "\n" for number in range(20)))
    assert sweep(inventory, "--steps", "3", "--workload", str(path), "--dir", "one", "--output-tokens", "64") == Exit.OK
    plan: dict[str, Any] = json.loads((tmp_path / "one" / "plan.json").read_text())
    assert plan["workload"]["name"] == "mine"
    assert plan["workload"]["output_tokens"] == 64
    path.write_text("not json\n")
    assert sweep(inventory, "--steps", "3", "--workload", str(path), "--dir", "two") == Exit.USAGE
    assert "line 1" in capsys.readouterr().err
    assert len(playbooks.restarts) == 6
