"""The deployer's own logic, with Ansible replaced: what is on disk and in the history after all that can happen."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from controller.apply.canary import LevelResult
from controller.apply.change import Change, End
from controller.apply.deployer import Deployer
from controller.apply.errors import RefusedError
from controller.apply.history import History
from controller.apply.host_vars import HostVars, settings_in
from controller.apply.ports import Proof
from controller.exits import Exit, InputError, JournalError, LockedError, TargetError
from controller.inventory import Target
from controller.journal import Journal
from controller.lock import NodeLock, holders, node_key
from controller.playbook_events import TaskFailure, TaskTime
from controller.playbooks import PlaybookRun
from controller.sweep.leftovers import RunningNote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

OLD = {"sglang_server_speculative_num_steps": 1}
NEW = {"sglang_server_speculative_num_steps": 3}
CHANGE = Change("sglang_server_speculative_num_steps: 3\n", NEW, {"arm": "steps-3", "sweep_id": "S", "verdict": "PAYS"})
HEALTH = {"ready": True, "url": "http://server", "launch": {}, "server": {}}


def run(playbook: str, *, status: Any = "ok", module: str = "sglang_process", **more: Any) -> PlaybookRun:
    results = {"sglang_health": HEALTH} if status == "ok" else {}
    task = TaskTime("t", f"sglang_ops.eagle3.{module}", 0.1, "ok")
    failure = None if status == "ok" else TaskFailure("t", module, "GPU 3 is full")
    values: dict[str, Any] = {"tasks": (task,), "results": results, "failure": failure}
    return PlaybookRun(f"{playbook}.yml", status, 0, 1.0, **(values | more))


@dataclass
class FakePlaybooks:
    """Answers each playbook as told, once it has noted what the inventory holds."""

    host_vars: HostVars
    answers: dict[str, Callable[[], PlaybookRun]] = field(default_factory=dict)
    calls: list[tuple[str, object]] = field(default_factory=list)

    def run(self, playbook: str, *, tags: Sequence[str] = (), **more: Any) -> PlaybookRun:
        name = "prepare" if tags else playbook
        self.calls.append((name, steps_in(self.host_vars)))
        answer = self.answers.get(name, lambda: run(playbook))()
        if more["cancelled"]():
            return run(playbook, status="cancelled")
        more.get("on_phase", lambda _: None)("weights")
        return answer

    def command(self, playbook: str, extra_vars: Mapping[str, Any], tags: Sequence[str] = ()) -> str:
        raise NotImplementedError


class Watcher:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.ends: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def ended(self, state: str, text: str) -> None:
        del text
        self.ends.append(state)

    def began(self, title: str) -> None: ...
    def step(self, text: str) -> None: ...
    def phase(self, name: str) -> None: ...
    def tokens(self, count: int, seconds: float) -> None: ...


def steps_in(host_vars: HostVars) -> object:
    return settings_in(host_vars.read(), host_vars.path).get("sglang_server_speculative_num_steps")


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployer:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("inference: {hosts: {box: }}\n")
    target = Target(inventory, "box", {})
    history = History(target)
    host_vars = HostVars.of(inventory, "box")
    host_vars.write("sglang_server_speculative_num_steps: 1\n")
    return Deployer(
        target=target,
        host_vars=host_vars,
        history=history,
        playbooks=FakePlaybooks(host_vars),
        watcher=Watcher(),
        note=RunningNote(history.directory, ""),
        effective=lambda: settings_in(host_vars.read(), host_vars.path),
        command="controller rollback",
    )


def fake(one: Deployer) -> FakePlaybooks:
    assert isinstance(one.playbooks, FakePlaybooks)
    return one.playbooks


def good(health: Mapping[str, Any], watcher: object) -> Proof:
    del watcher
    assert health["ready"]
    return Proof([], ["it was launched otherwise"])


def bad(health: Mapping[str, Any], watcher: object) -> Proof:
    del health, watcher
    return Proof([LevelResult(1, 0, 4, None, None, None, None)])


def outcomes(one: Deployer) -> list[str]:
    return [deployment.state for deployment in one.history.deployments()]


def test_an_apply_that_holds(one: Deployer) -> None:
    end = one.apply(CHANGE, good)
    assert (end.outcome, end.exit_code, end.launches, end.number) == ("applied", Exit.OK, 1, 1)
    assert fake(one).calls == [("deploy", 3)]
    assert steps_in(one.host_vars) == 3
    (kept,) = one.history.deployments()
    assert kept.settings == NEW
    assert kept.before == "sglang_server_speculative_num_steps: 1\n"
    assert (kept.state, kept.step, kept.arm) == ("applied", "serving", "steps-3")
    assert "note: it was launched otherwise." in end.sentences
    assert "take it back with: controller rollback" in end.sentences[-1]
    assert holders() == []
    assert [path.name for path in one.history.directory.iterdir()] == ["history.jsonl"]


def test_a_canary_that_misses_costs_one_more_launch_and_the_old_settings_serve(one: Deployer) -> None:
    end = one.apply(CHANGE, bad)
    assert (end.outcome, end.exit_code, end.launches) == ("rolled_back", Exit.RUN_FAILED, 2)
    assert fake(one).calls == [("deploy", 3), ("restart", 1)]
    assert "4 requests of the canary failed" in end.sentences[-1]
    assert "serves again, its health verified" in end.sentences[-1]
    assert outcomes(one) == ["rolled_back"]
    assert one.history.deployments()[0].canary[0]["failed"] == 4
    assert holders() == []


def test_a_server_that_does_not_come_up_is_taken_back(one: Deployer) -> None:
    fake(one).answers["deploy"] = lambda: run("deploy", status="failed")
    end = one.apply(CHANGE, good)
    assert (end.outcome, end.exit_code, end.launches) == ("rolled_back", Exit.RUN_FAILED, 2)
    assert "did not come up: GPU 3 is full" in end.sentences[-1]
    assert fake(one).calls[-1] == ("restart", 1)


def test_a_failure_before_the_server_is_touched_costs_no_restart(one: Deployer) -> None:
    fake(one).answers["deploy"] = lambda: run("deploy", status="failed", module="preflight_info")
    end = one.apply(CHANGE, good)
    assert (end.outcome, end.launches) == ("rolled_back", 0)
    assert fake(one).calls == [("deploy", 3)]
    assert steps_in(one.host_vars) == 1
    assert "was not touched" in end.sentences[-1]


def test_a_target_that_is_gone_at_once_and_in_the_middle(one: Deployer) -> None:
    fake(one).answers["deploy"] = lambda: run("deploy", status="unreachable", tasks=())
    end = one.apply(CHANGE, good)
    assert (end.outcome, end.exit_code) == ("rolled_back", Exit.TARGET)
    assert "cannot be reached" in end.sentences[-1]
    fake(one).answers = {name: lambda: run("x", status="unreachable") for name in ("deploy", "restart")}
    end = one.apply(CHANGE, good)
    assert (end.outcome, end.exit_code) == ("failed", Exit.TARGET)
    assert steps_in(one.host_vars) == 1
    assert "the server may be down" in end.sentences[-1]
    assert "controller rollback" in end.sentences[-1]
    assert outcomes(one) == ["rolled_back", "failed"]
    assert holders()[0].work == "deployment"  # the next command learns of it

    fake(one).answers.clear()
    again = one.rollback("last")
    assert (again.outcome, again.exit_code) == ("applied", Exit.OK)
    assert holders() == []


@pytest.mark.parametrize("moment", ["writing", "deploy", "canary"])
def test_ctrl_c_takes_it_back(one: Deployer, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def deploying() -> PlaybookRun:
        if moment == "deploy":
            interrupt()
        return run("deploy")

    def proving(health: Mapping[str, Any], watcher: object) -> Proof:
        interrupt()
        return good(health, watcher)

    if moment == "writing":
        effective = one.effective

        def reading() -> Mapping[str, Any]:
            interrupt()
            return effective()

        monkeypatch.setattr(one, "effective", reading)
    fake(one).answers["deploy"] = deploying
    end = one.apply(CHANGE, proving)
    assert (end.outcome, end.exit_code) == ("rolled_back", Exit.INTERRUPTED)
    assert steps_in(one.host_vars) == 1
    restarts = [name for name, _ in fake(one).calls if name == "restart"]
    assert restarts == ([] if moment == "writing" else ["restart"])
    assert outcomes(one) == ["rolled_back"]


def test_a_variable_that_another_source_wins_is_refused_before_the_server_is_touched(
    one: Deployer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one, "effective", lambda: OLD)
    with pytest.raises(InputError, match=r"another source of .*hosts.yml wins over .*sglang_eagle3.yml \(found: 1\)"):
        one.apply(CHANGE, good)
    assert fake(one).calls == []
    assert steps_in(one.host_vars) == 1
    assert outcomes(one) == ["rolled_back"]


def test_a_fault_in_the_middle_leaves_the_old_server(one: Deployer) -> None:
    def broken(health: Mapping[str, Any], watcher: object) -> Proof:
        del health, watcher
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        one.apply(CHANGE, broken)
    assert fake(one).calls == [("deploy", 3), ("restart", 1)]
    assert outcomes(one) == ["rolled_back"]


def test_a_full_disk_in_the_middle_leaves_the_old_server_and_says_so(
    one: Deployer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Journal.append

    def append(journal: Journal, kind: str, **fields: object) -> Any:
        if kind != "applying":
            raise JournalError("no space")
        return real(journal, kind, **fields)

    monkeypatch.setattr(Journal, "append", append)
    with pytest.raises(JournalError):
        one.apply(CHANGE, good)
    assert steps_in(one.host_vars) == 1
    assert "going on without a record: no space" in one.watcher.notes  # type: ignore[attr-defined]


def test_host_vars_that_cannot_be_put_back_are_a_failure(one: Deployer, monkeypatch: pytest.MonkeyPatch) -> None:
    write = HostVars.write

    def stubborn(host_vars: HostVars, content: str | None) -> Path:
        if content == "sglang_server_speculative_num_steps: 1\n":
            raise InputError("read-only.")
        return write(host_vars, content)

    monkeypatch.setattr(HostVars, "write", stubborn)
    end = one.apply(CHANGE, bad)
    assert (end.outcome, end.exit_code) == ("failed", Exit.TARGET)
    assert "taking it back failed: read-only" in end.sentences[-1]


def test_a_playbook_that_cannot_even_be_run_is_a_failure_that_is_told(one: Deployer) -> None:
    def full() -> PlaybookRun:
        raise TargetError("cannot keep Ansible's files: No space left on device.")

    fake(one).answers = {"deploy": full, "restart": full}
    with pytest.raises(TargetError, match="No space left"):
        one.apply(CHANGE, good)
    assert outcomes(one) == ["failed"]
    assert any("controller rollback" in text for text in one.watcher.notes)  # type: ignore[attr-defined]
    with pytest.raises(TargetError, match="No space left"):
        one.rollback("last")
    assert outcomes(one) == ["failed", "failed"]
    fake(one).answers.clear()
    assert one.rollback("last").outcome == "applied"
    assert steps_in(one.host_vars) == 1


def cut_off(one: Deployer, step: str = "launching") -> None:
    """What a kill -9 leaves: the new settings on disk, a record without an end, the lock's note and Ansible's."""
    died = (
        "import sys, os\nfrom pathlib import Path\nfrom controller.lock import NodeLock\n"
        "from controller.sweep.leftovers import RunningNote\nfolder = Path(sys.argv[2])\n"
        "NodeLock(sys.argv[1], 'box').acquire('steps-3', folder, work='deployment')\n"
        "RunningNote(folder, 'deployment 1').update()\nos._exit(0)\n"
    )
    with one.history.open() as journal:
        fields = {"action": "apply", "who": "me", "target": "box", "inventory": "/i", "settings": NEW, "file": "/f"}
        journal.append(
            "applying", number=1, before=one.host_vars.read(), after=CHANGE.content, pid=1, start_ticks=-1, **fields
        )
        journal.append("step", number=1, step=step)
    one.host_vars.write(CHANGE.content)
    key = node_key(one.target.lock_identity)
    subprocess.run([sys.executable, "-c", died, key, str(one.history.directory)], check=True)


def test_what_was_cut_off_is_refused_until_it_is_taken_back(one: Deployer) -> None:
    cut_off(one)
    with pytest.raises(RefusedError, match=r"was cut off while the server was launched: .* controller rollback"):
        one.apply(CHANGE, good)
    assert fake(one).calls == []
    assert not holders()[0].alive

    end = one.rollback("last")
    assert (end.outcome, end.exit_code, end.launches) == ("applied", Exit.OK, 1)
    assert fake(one).calls == [("restart", 1)]
    assert outcomes(one) == ["rolled_back", "applied"]
    assert "taken back by deployment 2" in one.history.deployments()[0].reason
    assert holders() == []
    assert not (one.history.directory / "running.json").exists()
    assert one.apply(CHANGE, good).outcome == "applied"


def test_a_rollback_that_fails_or_is_interrupted_can_be_repeated(one: Deployer) -> None:
    one.apply(CHANGE, good)
    fake(one).answers["prepare"] = lambda: run("deploy", status="failed", module="draft_config")
    fake(one).answers["restart"] = lambda: run("restart", status="failed")
    end = one.rollback("last")
    assert (end.outcome, end.exit_code) == ("failed", Exit.TARGET)
    assert "no healthy server runs" in end.sentences[-1]
    assert any("preparation failed" in text for text in one.watcher.notes)  # type: ignore[attr-defined]

    def interrupted() -> PlaybookRun:
        os.kill(os.getpid(), signal.SIGINT)
        return run("restart")

    fake(one).answers = {"restart": interrupted}
    end = one.rollback("last")
    assert (end.outcome, end.exit_code) == ("unfinished", Exit.INTERRUPTED)
    assert end.sentences[-1].endswith(": controller rollback")
    fake(one).answers.clear()
    assert one.rollback("last").outcome == "applied"
    assert steps_in(one.host_vars) == 1
    fake(one).answers = {"prepare": interrupted}
    assert one.rollback("last").outcome == "unfinished"
    assert fake(one).calls[-1][0] == "prepare"


def test_back_and_back_again(one: Deployer) -> None:
    one.apply(CHANGE, good)
    end = one.rollback("last")
    assert "0, before the first deployment" in end.sentences[0]
    assert steps_in(one.host_vars) == 1
    one.rollback("1")
    assert steps_in(one.host_vars) == 3
    for word in ("9", "²"):
        with pytest.raises(InputError, match="from 0 to 3"):
            one.rollback(word)
    assert outcomes(one) == ["applied"] * 3


def test_a_sweep_that_holds_the_node_excludes_a_deployment(one: Deployer, tmp_path: Path) -> None:
    with NodeLock(node_key(one.target.lock_identity), "box").acquire("S9", tmp_path):
        with pytest.raises(LockedError, match="another sweep holds"):
            one.apply(CHANGE, good)
        with pytest.raises(LockedError, match="another sweep holds"):
            one.rollback("last")
    assert one.history.deployments() == []


def test_a_deployment_that_holds_the_node_excludes_a_sweep(one: Deployer, tmp_path: Path) -> None:
    def sweeping(health: Mapping[str, Any], watcher: object) -> Proof:
        with pytest.raises(LockedError, match="another deployment holds"):
            NodeLock(node_key(one.target.lock_identity), "box").acquire("S9", tmp_path)
        return good(health, watcher)

    assert one.apply(CHANGE, sweeping).outcome == "applied"


def test_what_a_killed_sweep_left_is_ended_first(one: Deployer, tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    died = (
        "import sys, os\nfrom pathlib import Path\nfrom controller.lock import NodeLock\n"
        "from controller.sweep.leftovers import RunningNote\nfolder = Path(sys.argv[2])\n"
        "NodeLock(sys.argv[1], 'box').acquire('S1', folder)\nRunningNote(folder, 'S1').update(cell='b')\nos._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", died, node_key(one.target.lock_identity), str(folder)], check=True)
    assert one.apply(CHANGE, good).outcome == "applied"
    assert list(folder.iterdir()) == []


def test_what_another_gave_up_is_remembered_while_it_is_still_leaving(one: Deployer, tmp_path: Path) -> None:
    NodeLock(node_key(one.target.lock_identity), "box").acquire("S9", tmp_path).abandon()
    with pytest.raises(InputError):
        one.rollback("9")
    assert [holder.sweep_id for holder in holders()] == ["S9"]


def test_an_end_knows_its_file(one: Deployer) -> None:
    end = one.apply(CHANGE, good)
    assert end.file == str(one.host_vars.path)
    assert isinstance(dataclasses.replace(end, number=2), End)
