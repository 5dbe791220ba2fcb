from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from controller.exits import Exit, JournalError, LockedError
from controller.journal import Journal, read_journal
from controller.lock import NodeLock, holders, node_key
from controller.playbook_events import TaskFailure, TaskTime
from controller.playbooks import PlaybookRun
from controller.process import start_ticks
from controller.sweep import leftovers
from controller.sweep.results import analyse
from controller.sweep.state import CellState, SweepState, fold
from controller.sweep.sweep import JOURNAL
from tests.unit.controller.sweep.fakes import (
    STOPPED,
    FakeLoad,
    FakePlaybooks,
    Notes,
    broken,
    cancelled,
    healthy,
    plan,
    record,
    sweep,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def state_of(directory: Path) -> SweepState:
    return fold(read_journal(directory / JOURNAL).records)


def kinds(directory: Path) -> list[str]:
    return [entry["kind"] for entry in read_journal(directory / JOURNAL).records]


def test_every_cell_is_launched_in_order_measured_and_the_server_stopped(tmp_path: Path) -> None:
    playbooks, load, directory = FakePlaybooks(), FakeLoad(repeats=2), tmp_path / "s"
    end = sweep(directory, playbooks, load).run()
    assert end.exit_code is Exit.OK
    assert end.sentences == ()
    assert len(playbooks.restarts) == 6
    assert playbooks.calls[-1][0] == "stop"
    state = state_of(directory)
    assert all(state.cell(cell.cell_id).state is CellState.DONE for cell in plan().cells)
    assert [call["run"] for call in load.calls[:3]] == [0, 0, 1]
    assert [call["warmup"] for call in load.calls[:3]] == [True, False, False]
    assert load.calls[0]["time_scale"] == 0.5
    assert load.flushed == len(load.calls)
    assert state.stopped
    assert state.ended == "ok"
    assert holders(tmp_path / "locks") == []
    assert not (directory / leftovers.NAME).exists()
    lines = (directory / "cells" / plan().cells[0].cell_id / "requests.jsonl").read_text().splitlines()
    assert len(lines) == 3


def test_the_extra_vars_of_a_cell(tmp_path: Path) -> None:
    playbooks = FakePlaybooks()
    sweep(tmp_path / "s", playbooks, FakeLoad()).run()
    for cell, variables in zip(plan().cells, playbooks.restarts, strict=True):
        assert variables["sglang_server_speculative"] is (cell.arm != "baseline")
        assert variables["sglang_server_max_running_requests"] == 16
        assert variables["sglang_server_cuda_graph_max_bs"] == 8
        assert variables["sglang_server_owner"] == "S1"
        assert variables["sglang_server_log_file"] == f"{{{{ sglang_server_log_dir }}}}/sweep-S1-{cell.cell_id}.log"
        assert "sglang_server_restart" not in variables


def test_each_playbook_fetches_the_log_of_the_launch_before(tmp_path: Path) -> None:
    playbooks, directory = FakePlaybooks(), tmp_path / "s"
    sweep(directory, playbooks, FakeLoad()).run()
    assert "collect_log_src" not in playbooks.restarts[0]
    followers = [*playbooks.restarts[1:], playbooks.stops[0]]
    for cell, variables in zip(plan().cells, followers, strict=True):
        assert variables["collect_log_src"] == f"/logs/sweep-S1-{cell.cell_id}.log"
        assert variables["collect_log_dest"] == str(directory / "cells" / cell.cell_id / "server.log")


def test_secrets_and_environment_stay_out_of_the_journal(tmp_path: Path) -> None:
    sweep(tmp_path / "s", FakePlaybooks(), FakeLoad()).run()
    text = (tmp_path / "s" / JOURNAL).read_text()
    assert "secret" not in text
    assert '"environment":{"A"' not in text


def test_a_failed_cell_does_not_end_the_sweep(tmp_path: Path) -> None:
    def answer(number: int, variables: Mapping[str, Any]) -> PlaybookRun:
        return broken() if number == 1 else healthy(variables)

    playbooks, notes = FakePlaybooks(answer), Notes()
    end = sweep(tmp_path / "s", playbooks, FakeLoad(), watcher=notes).run()
    assert end.exit_code is Exit.RUN_FAILED
    assert "1 of 6 cells failed" in end.sentences[-1]
    assert "--resume" in end.sentences[-1]
    assert len(playbooks.restarts) == 6
    history = state_of(tmp_path / "s").cell(plan().cells[1].cell_id)
    assert history.state is CellState.FAILED
    assert history.failure is not None
    assert history.failure["class"] == "oom"
    assert history.failure["sentence"] == "GPU 3 is full. Lower the memory."
    assert len(history.failure["log_tail"]) == 80
    assert notes.ended[1][1:] == ("failed", "GPU 3 is full. Lower the memory.")
    assert playbooks.restarts[2]["collect_log_src"].endswith(f"{plan().cells[1].cell_id}.log")


def three_steps_fail(number: int, variables: Mapping[str, Any]) -> PlaybookRun:
    del number
    return broken() if variables.get("sglang_server_speculative_num_steps") == 3 else healthy(variables)


def test_an_arm_that_fails_the_same_way_twice_is_launched_no_more(tmp_path: Path) -> None:
    playbooks, notes, four = FakePlaybooks(three_steps_fail), Notes(), plan(blocks=4)
    directory = tmp_path / "s"
    end = sweep(directory, playbooks, FakeLoad(), plan=four, watcher=notes).run()
    assert end.exit_code is Exit.RUN_FAILED
    assert "4 of 12 cells failed" in end.sentences[-1]
    assert len(playbooks.restarts) == 10
    state = state_of(directory)
    failed = [cell.cell_id for cell in four.cells if cell.arm == "steps-3"]
    assert all(state.cell(cell_id).state is CellState.FAILED for cell_id in failed)
    told = [text for cell_id, _, text in notes.ended if cell_id in failed[2:]]
    sentence = f"not launched: steps-3 failed in the same way in {failed[0]} and {failed[1]}"
    assert told == [f"{sentence}; --resume tries it again once the cause is gone"] * 2
    arm = next(arm for arm in analyse(four, state).levels[0].arms if arm.arm == "steps-3")
    assert arm.failed_launches == 2
    again = FakePlaybooks()
    sweep(directory, again, FakeLoad(), state, plan=four).run()
    assert len(again.restarts) == 4
    assert all(state_of(directory).cell(cell.cell_id).state is CellState.DONE for cell in four.cells)


def test_a_resumed_sweep_remembers_what_was_measured(tmp_path: Path) -> None:
    directory, four = tmp_path / "s", plan(blocks=4)
    first = FakePlaybooks(lambda number, v: healthy(v) if number < 4 else broken())
    sweep(directory, first, FakeLoad(), plan=four).run()
    state = state_of(directory)
    assert [host.measured_arms for host in state.hosts.values()] == [{cell.arm for cell in four.cells}]
    again = FakePlaybooks(three_steps_fail)
    sweep(directory, again, FakeLoad(), state, plan=four).run()
    assert len(again.restarts) == len(state.pending(four)) == 8


def test_a_resumed_sweep_measures_only_what_is_not_done(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    sweep(directory, FakePlaybooks(lambda number, v: broken() if number == 1 else healthy(v)), FakeLoad()).run()
    again = FakePlaybooks()
    end = sweep(directory, again, FakeLoad(), state_of(directory)).run()
    assert end.exit_code is Exit.OK
    assert len(again.restarts) == 1
    assert again.restarts[0]["sglang_server_log_file"].endswith(f"{plan().cells[1].cell_id}-2.log")
    state = state_of(directory)
    assert all(history.times_done == 1 for history in state.cells.values())
    assert state.cell(plan().cells[1].cell_id).attempt == 2
    resumed = next(entry for entry in read_journal(directory / JOURNAL).records if entry["kind"] == "resumed")
    assert len(resumed["reused"]) == 5
    assert resumed["repeated"] == [plan().cells[1].cell_id]


def test_the_node_is_prepared_once_for_each_draft_model(tmp_path: Path) -> None:
    playbooks = FakePlaybooks()
    sweep(tmp_path / "s", playbooks, FakeLoad()).run()
    deploys = [variables["sglang_server_speculative"] for name, variables in playbooks.calls if name == "deploy"]
    assert sorted(deploys) == [False, True]
    assert playbooks.calls[0][0] == "deploy"


def test_a_draft_model_that_cannot_be_used_fails_its_cells_and_launches_nothing(tmp_path: Path) -> None:
    sentence = "The draft model has another vocabulary."
    failed = PlaybookRun(
        "deploy.yml",
        "failed",
        2,
        1.0,
        (TaskTime("Check", "m", 1.0, "failed"),),
        {},
        TaskFailure("Check", "m", sentence),
    )
    playbooks = FakePlaybooks(deploy_answer=lambda v: failed if v["sglang_server_speculative"] else STOPPED)
    end = sweep(tmp_path / "s", playbooks, FakeLoad()).run()
    assert end.exit_code is Exit.RUN_FAILED
    assert len(playbooks.restarts) == 2
    failures = [history.failure for history in state_of(tmp_path / "s").cells.values() if history.failure]
    assert [failure["sentence"] for failure in failures] == [sentence] * 4
    launched = {Path(variables["sglang_server_log_file"]).name for variables in playbooks.restarts}
    fetched = [Path(v["collect_log_src"]).name for _, v in playbooks.calls if "collect_log_src" in v]
    assert sorted(fetched) == sorted(launched), "the cell that launched nothing made the sweep forget a log"


def test_an_unreachable_target_ends_the_sweep_and_loses_nothing(tmp_path: Path) -> None:
    playbooks = FakePlaybooks(lambda number, v: unreachable() if number == 2 else healthy(v))
    end = sweep(tmp_path / "s", playbooks, FakeLoad()).run()
    assert end.exit_code is Exit.TARGET
    assert "no route to host" in end.sentences[-1]
    assert "--resume" in end.sentences[-1]
    assert len(playbooks.restarts) == 3
    assert sum(history.state is CellState.DONE for history in state_of(tmp_path / "s").cells.values()) == 2


def test_an_ansible_that_runs_no_task_at_all_ends_the_sweep(tmp_path: Path) -> None:
    playbooks = FakePlaybooks(lambda *_: PlaybookRun("restart.yml", "failed", 1, 0.1))
    end = sweep(tmp_path / "s", playbooks, FakeLoad()).run()
    assert end.exit_code is Exit.TARGET
    assert len(playbooks.restarts) == 1


def test_a_server_that_is_not_ready_after_a_good_playbook_is_a_failure(tmp_path: Path) -> None:
    playbooks = FakePlaybooks(lambda *_: PlaybookRun("restart.yml", "ok", 0, 0.1))
    assert sweep(tmp_path / "s", playbooks, FakeLoad()).run().exit_code is Exit.RUN_FAILED
    assert len(playbooks.restarts) == 6


def test_requests_that_all_fail_fail_the_cell(tmp_path: Path) -> None:
    load = FakeLoad(answer=lambda number: [record(error="The server is gone.")] if number == 1 else [record()])
    end = sweep(tmp_path / "s", FakePlaybooks(), load).run()
    assert end.exit_code is Exit.RUN_FAILED
    history = state_of(tmp_path / "s").cell(plan().cells[0].cell_id)
    assert history.failure is not None
    assert history.failure["class"] == "no_completed_request"
    assert "The server is gone." in history.failure["sentence"]


def test_a_server_that_died_under_load_is_classified_by_the_target(tmp_path: Path) -> None:
    def half(number: int) -> list[Any]:
        return [record(), record(error="The stream ended.")] if number == 1 else [record()]

    playbooks = FakePlaybooks(health_answer=broken("scheduler_died"))
    assert sweep(tmp_path / "s", playbooks, FakeLoad(answer=half)).run().exit_code is Exit.RUN_FAILED
    history = state_of(tmp_path / "s").cell(plan().cells[0].cell_id)
    assert history.failure is not None
    assert history.failure["class"] == "scheduler_died"


def test_a_failed_request_of_a_living_server_is_kept_and_the_cell_done(tmp_path: Path) -> None:
    load = FakeLoad(answer=lambda _: [record(), record(error="The server answered 500.")])
    assert sweep(tmp_path / "s", FakePlaybooks(), load).run().exit_code is Exit.OK


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_while_launching_abandons_the_cell_and_stops_the_server(
    tmp_path: Path, number: signal.Signals
) -> None:
    def answer(count: int, variables: Mapping[str, Any]) -> PlaybookRun:
        if count == 1:
            interrupt(number)
            return cancelled()
        return healthy(variables)

    playbooks, notes = FakePlaybooks(answer), Notes()
    before = signal.getsignal(number)
    end = sweep(tmp_path / "s", playbooks, FakeLoad(), watcher=notes).run()
    assert end.exit_code is Exit.INTERRUPTED
    assert "interrupted with 5 of 6 cells left" in end.sentences[-1]
    assert len(playbooks.restarts) == 2
    assert playbooks.calls[-1][0] == "stop"
    assert state_of(tmp_path / "s").cell(plan().cells[1].cell_id).state is CellState.ABANDONED
    assert signal.getsignal(number) is before
    assert any("shut down" in note for note in notes.notes)


def test_an_interrupt_while_measuring_is_not_delayed_by_a_long_request(tmp_path: Path) -> None:
    def slow(number: int) -> list[Any]:
        if number == 1:
            interrupt()
            signal.pause()
        return [record(warmup=number == 0)]

    playbooks = FakePlaybooks()
    end = sweep(tmp_path / "s", playbooks, FakeLoad(answer=slow)).run()
    assert end.exit_code is Exit.INTERRUPTED
    state = state_of(tmp_path / "s")
    assert state.cell(plan().cells[0].cell_id).state is CellState.ABANDONED
    again = FakePlaybooks()
    assert sweep(tmp_path / "s", again, FakeLoad(), state).run().exit_code is Exit.OK
    assert len(again.restarts) == 6
    assert state_of(tmp_path / "s").cell(plan().cells[0].cell_id).attempt == 2


def test_an_interrupt_between_cells_launches_no_more(tmp_path: Path) -> None:
    class Interrupting(Notes):
        def cell_ended(self, cell: Any, state: str, text: str, seconds: float) -> None:
            super().cell_ended(cell, state, text, seconds)
            interrupt()

    playbooks = FakePlaybooks()
    end = sweep(tmp_path / "s", playbooks, FakeLoad(), watcher=Interrupting()).run()
    assert end.exit_code is Exit.INTERRUPTED
    assert len(playbooks.restarts) == 1
    assert sum(history.state is CellState.DONE for history in state_of(tmp_path / "s").cells.values()) == 1


def test_a_second_interrupt_quits_at_once_and_says_what_may_still_run(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from tests.unit.controller.sweep.fakes import FakeLoad, FakePlaybooks, sweep\n"
        "def answer(*_):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n    os.kill(os.getpid(), signal.SIGINT)\n    signal.pause()\n"
        "sweep(Path(sys.argv[1]), FakePlaybooks(answer), FakeLoad()).run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "s")], capture_output=True, text=True, check=False
    )
    assert done.returncode == Exit.INTERRUPTED
    assert "may still run" in done.stderr
    assert "python -m controller stop" in done.stderr
    assert "Traceback" not in done.stderr
    found = leftovers.find(tmp_path / "s")
    assert found is not None
    assert found.cell == plan().cells[0].cell_id


def test_a_journal_that_fills_up_stops_the_server_and_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = Journal.append, 0

    def fail(self: Journal, kind: str, **fields: object) -> Any:
        nonlocal count
        count += 1
        if count > 12:
            raise JournalError("cannot write the journal: No space left on device.")
        return real(self, kind, **fields)

    monkeypatch.setattr(Journal, "append", fail)
    playbooks = FakePlaybooks()
    with pytest.raises(JournalError, match="No space left"):
        sweep(tmp_path / "s", playbooks, FakeLoad()).run()
    assert playbooks.calls[-1][0] == "stop"
    monkeypatch.undo()
    assert len(read_journal(tmp_path / "s" / JOURNAL).records) == 12
    assert holders(tmp_path / "locks") == []


def test_a_full_disk_at_the_start_launches_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    directory.mkdir()
    (directory / JOURNAL).symlink_to("/dev/full")
    playbooks = FakePlaybooks()
    with pytest.raises(JournalError):
        sweep(directory, playbooks, FakeLoad()).run()
    assert playbooks.calls == []


def test_a_second_sweep_of_the_node_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    playbooks = FakePlaybooks()
    one = sweep(tmp_path / "s", playbooks, FakeLoad())
    lock = NodeLock(node_key(one.target.lock_identity), "host", tmp_path / "locks").acquire("OTHER", Path("/other"))
    with pytest.raises(LockedError, match="/other"):
        one.run()
    assert playbooks.calls == []
    assert not (tmp_path / "s" / JOURNAL).exists()
    lock.release()


def test_a_stop_that_fails_is_said_and_remembered(tmp_path: Path) -> None:
    playbooks = FakePlaybooks(stop_answer=unreachable())
    end = sweep(tmp_path / "s", playbooks, FakeLoad()).run()
    assert end.exit_code is Exit.TARGET
    assert "could not be stopped" in end.sentences[0]
    assert holders(tmp_path / "locks")[0].sweep_id == "S1"
    assert not state_of(tmp_path / "s").stopped


def test_the_server_may_be_left_running(tmp_path: Path) -> None:
    playbooks = FakePlaybooks()
    assert sweep(tmp_path / "s", playbooks, FakeLoad(), leave_running=True).run().exit_code is Exit.OK
    assert playbooks.stops == []
    assert holders(tmp_path / "locks") == []


def test_a_changed_configuration_is_not_pooled(tmp_path: Path) -> None:
    def answer(number: int, variables: Mapping[str, Any]) -> PlaybookRun:
        run = healthy(variables)
        if number >= 3:
            health = dict(run.results["sglang_health"])
            health["launch"] = {**health["launch"], "fingerprint": "other"}
            return PlaybookRun("restart.yml", "ok", 0, 1.0, (), {"sglang_health": health})
        return run

    end = sweep(tmp_path / "s", FakePlaybooks(answer), FakeLoad()).run()
    assert end.exit_code is Exit.RUN_FAILED
    failures = [history.failure for history in state_of(tmp_path / "s").cells.values() if history.failure]
    assert {failure["class"] for failure in failures} == {"configuration_changed"}
    assert len(failures) == 3


def killed_sweep(directory: Path, locks: Path) -> None:
    """A controller that dies while its first cell is being measured."""
    script = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from tests.unit.controller.sweep.fakes import FakeLoad, FakePlaybooks, sweep\n"
        "die = lambda number: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sweep(Path(sys.argv[1]), FakePlaybooks(), FakeLoad(answer=die)).run()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(directory)], check=False)
    assert holders(locks)


def test_the_same_sweep_resumes_after_a_kill(tmp_path: Path) -> None:
    directory, notes, playbooks = tmp_path / "s", Notes(), FakePlaybooks()
    killed_sweep(directory, tmp_path / "locks")
    first = plan().cells[0].cell_id
    end = sweep(directory, playbooks, FakeLoad(), state_of(directory), watcher=notes).run()
    assert end.exit_code is Exit.OK
    assert notes.notes == [
        f"the server of sweep S1 cell {first} may still be running; its controller is gone; cleaning it up"
    ]
    assert len(playbooks.restarts) == 6
    assert [name for name, _ in playbooks.calls[:3]] == ["stop", "deploy", "restart"]
    assert playbooks.stops[0]["collect_log_src"] == f"/logs/sweep-S1-{first}.log"
    states = [
        entry["state"]
        for entry in read_journal(directory / JOURNAL).records
        if entry.get("cell") == first and "state" in entry
    ]
    assert states == ["launching", "ready", "measuring", "abandoned", "launching", "ready", "measuring", "done"]


def test_the_next_sweep_cleans_up_after_another_that_was_killed(tmp_path: Path) -> None:
    dead, notes, playbooks = tmp_path / "dead", Notes(), FakePlaybooks()
    killed_sweep(dead, tmp_path / "locks")
    end = sweep(tmp_path / "next", playbooks, FakeLoad(), watcher=notes).run()
    assert end.exit_code is Exit.OK
    assert "its controller is gone" in notes.notes[0]
    assert playbooks.calls[0][0] == "stop"
    assert not (dead / leftovers.NAME).exists()


def test_the_next_sweep_manages_without_the_directory_of_the_dead_one(tmp_path: Path) -> None:
    dead, notes, playbooks = tmp_path / "dead", Notes(), FakePlaybooks()
    killed_sweep(dead, tmp_path / "locks")
    (dead / leftovers.NAME).unlink()
    assert sweep(tmp_path / "next", playbooks, FakeLoad(), watcher=notes).run().exit_code is Exit.OK
    assert "its controller is gone" in notes.notes[0]
    assert playbooks.calls[0][0] == "stop"


def test_a_leftover_ansible_is_ended_before_anything_else(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    killed_sweep(directory, tmp_path / "locks")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "ansible-playbook"])
    note = json.loads((directory / leftovers.NAME).read_text())
    note["child"] = {"pid": child.pid, "start_ticks": start_ticks(child.pid)}
    (directory / leftovers.NAME).write_text(json.dumps(note))
    notes = Notes()
    sweep(directory, FakePlaybooks(), FakeLoad(), state_of(directory), watcher=notes).run()
    assert child.wait(timeout=5) == -15
    assert "ended 1 Ansible process of it" in notes.notes


def test_nothing_left_to_do_still_stops_what_a_killed_controller_left(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    sweep(directory, FakePlaybooks(), FakeLoad(), leave_running=True).run()
    again = FakePlaybooks()
    assert sweep(directory, again, FakeLoad(), state_of(directory)).run().exit_code is Exit.OK
    assert again.restarts == []
    assert len(again.stops) == 1
    assert kinds(directory)[-3:] == ["stopped", "resumed", "end"]


def test_a_sweep_killed_after_its_server_was_stopped_is_clean_when_nothing_is_left_to_do(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom controller.sweep.session import HostSession\n"
        "from tests.unit.controller.sweep.fakes import FakeLoad, FakePlaybooks, sweep\n"
        "HostSession.close = lambda self: os._exit(0)\n"
        "sweep(Path(sys.argv[1]), FakePlaybooks(), FakeLoad()).run()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(directory)], check=True)
    assert (directory / leftovers.NAME).exists()
    assert sweep(directory, FakePlaybooks(), FakeLoad(), state_of(directory)).run().exit_code is Exit.OK
    assert not (directory / leftovers.NAME).exists()
    assert holders(tmp_path / "locks") == []
