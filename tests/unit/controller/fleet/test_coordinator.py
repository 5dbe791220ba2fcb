"""A fleet of real processes with timed cells: losses, interrupts, kills and resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controller.arms import build_arms
from controller.exits import Exit, JournalError, LockedError
from controller.fleet.coordinator import FleetSweep
from controller.fleet.identity import HostsDifferError
from controller.journal import read_journal
from controller.plan import Plan, schedule
from controller.sweep.results import read_sweep
from controller.sweep.state import CellState
from tests.unit.controller.fleet.timed_host import Heard, TimedHost
from tests.unit.controller.sweep.fakes import plan as usual_plan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from controller.sweep.ending import SweepEnd
    from controller.sweep.state import SweepState


def fleet_plan(blocks: int, hosts: Mapping[str, TimedHost]) -> Plan:
    arms = build_arms((2, 3))
    return replace(
        usual_plan(blocks), arms=arms, cells=schedule(arms, blocks, 1), limit=",".join(hosts), hosts=tuple(hosts)
    )


def run(
    directory: Path, hosts: Mapping[str, TimedHost], blocks: int = 4, watcher: Heard | None = None, **more: Any
) -> SweepEnd:
    """Begin the sweep in the directory, or go on with it."""
    directory.mkdir(exist_ok=True)
    plan = fleet_plan(blocks, hosts)
    if not (directory / "plan.json").exists():
        plan.write(directory / "plan.json")
    decided, state = read_sweep(directory)
    return FleetSweep(decided, directory, state, hosts, watcher or Heard(), **more).run()


def state_of(directory: Path) -> SweepState:
    return read_sweep(directory)[1]


def check(directory: Path) -> SweepState:
    """Every cell is measured once, and every block by one host."""
    plan, state = read_sweep(directory)
    assert {state.cell(cell.cell_id).state for cell in plan.cells} == {CellState.DONE}
    assert {state.cell(cell.cell_id).times_done for cell in plan.cells} == {1}
    for block in range(1, plan.blocks + 1):
        assert len({state.cell(cell.cell_id).host for cell in plan.cells if cell.block == block}) == 1
    return state


def test_hosts_share_the_blocks_and_every_record_names_its_host(tmp_path: Path) -> None:
    heard = Heard()
    end = run(tmp_path / "s", {"a": TimedHost(), "b": TimedHost()}, watcher=heard)
    assert end == type(end)(Exit.OK, ())
    state = check(tmp_path / "s")
    assert set(state.measured_hosts) == {"a", "b"}
    assert len(heard.ended) == 12
    records = read_journal(tmp_path / "s" / "journal.jsonl").records
    assert all("host" in record for record in records if record["kind"] in ("cell", "host", "stopped", "block"))
    assert state.stopped
    assert set(state.finished_blocks.values()) == {"a", "b"}


def test_a_host_that_cannot_be_reached_any_more_leaves_its_block_to_another(tmp_path: Path) -> None:
    heard = Heard()
    end = run(tmp_path / "s", {"a": TimedHost(unreachable_at=1), "b": TimedHost()}, watcher=heard)
    assert end.exit_code is Exit.OK
    assert end.sentences == ("a was lost: no route to host",)
    state = check(tmp_path / "s")
    assert state.measured_hosts == ["b"]
    assert [(one.host, one.attempt) for one in state.superseded] == [("a", 1)]
    assert any("begins anew on b; 1 launch on a count no more" in note for note in heard.notes)
    assert heard.added == 1
    assert state.host("a").lost == "no route to host"


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.25])
def test_a_process_that_is_killed_loses_nothing(tmp_path: Path, after_s: float) -> None:
    end = run(tmp_path / "s", {"a": TimedHost(0.1, dies_after_s=after_s), "b": TimedHost(0.02)})
    assert end.exit_code is Exit.OK
    check(tmp_path / "s")


def test_a_host_that_was_never_there_is_lost_and_the_others_do_the_work(tmp_path: Path) -> None:
    end = run(tmp_path / "s", {"a": TimedHost(never_opens=True), "b": TimedHost()})
    assert end.exit_code is Exit.OK
    assert check(tmp_path / "s").measured_hosts == ["b"]


def test_a_host_on_which_everything_fails_is_sent_away_and_its_blocks_are_done_by_others(tmp_path: Path) -> None:
    heard = Heard()
    hosts = {"a": TimedHost(0.03, failing_from=1), "b": TimedHost(0.06)}  # "b" must not end before "a" has failed
    end = run(tmp_path / "s", hosts, blocks=8, watcher=heard)
    assert any(note.startswith("a is lost: its launches fail although") for note in heard.notes)
    state = state_of(tmp_path / "s")
    left = {cell: one.state for cell, one in state.cells.items() if one.state is not CellState.DONE}
    # What failed in a block that "a" half measured stays a failure, to be tried again by a resume.
    assert len(left) <= 2
    assert end.exit_code is (Exit.RUN_FAILED if left else Exit.OK)


def test_an_arm_that_fails_everywhere_fails_its_cells_and_loses_no_host(tmp_path: Path) -> None:
    end = run(tmp_path / "s", {"a": TimedHost(failing_from=0), "b": TimedHost(failing_from=0)})
    assert end.exit_code is Exit.RUN_FAILED
    assert "12 cells failed" in end.sentences[-1]


def test_all_hosts_lost_is_exit_3_and_a_resume_loses_nothing(tmp_path: Path) -> None:
    hosts = {"a": TimedHost(unreachable_at=4), "b": TimedHost(unreachable_at=2)}
    end = run(tmp_path / "s", hosts)
    assert end.exit_code is Exit.TARGET
    assert "nothing measured was lost" in end.sentences[-1]
    assert "--resume" in end.sentences[-1]
    before = {cell for cell, one in state_of(tmp_path / "s").cells.items() if one.state is CellState.DONE}
    assert len(before) == 6
    end = run(tmp_path / "s", {"a": TimedHost(), "b": TimedHost()})
    assert end.exit_code is Exit.OK
    state = check(tmp_path / "s")
    assert state.superseded == []  # each host finished its own half-done block
    assert before <= state.reused


def test_a_resume_without_the_host_of_a_half_done_block_does_it_anew(tmp_path: Path) -> None:
    hosts = {"a": TimedHost(unreachable_at=4), "b": TimedHost(unreachable_at=2)}
    run(tmp_path / "s", hosts)
    before = [one.host for one in state_of(tmp_path / "s").cells.values() if one.state is CellState.DONE]
    assert run(tmp_path / "s", {"b": TimedHost()}).exit_code is Exit.OK
    state = check(tmp_path / "s")
    assert [one.host for one in state.superseded] == ["a"] * (before.count("a") % 3)
    assert len(state.superseded) == 1


def test_hosts_that_are_not_alike_are_refused_before_anything_is_launched(tmp_path: Path) -> None:
    new, old = {"driver": "580", "GPUs": "GPU-1 GPU-2"}, {"driver": "570", "GPUs": "GPU-7"}
    hosts = {"a": TimedHost(identity=new), "b": TimedHost(identity=old), "c": TimedHost(identity=new)}
    with pytest.raises(HostsDifferError, match="on b driver is 570, not 580, number of GPUs is 1, not 2"):
        run(tmp_path / "s", hosts)
    assert not any(record["kind"] == "cell" for record in read_journal(tmp_path / "s" / "journal.jsonl").records)
    assert run(tmp_path / "s", hosts, accept_changes=True).exit_code is Exit.OK
    assert state_of(tmp_path / "s").host_differences == {"b": ["driver is 570, not 580", "number of GPUs is 1, not 2"]}


SCRIPT = """
import sys
from pathlib import Path
from tests.unit.controller.fleet.test_coordinator import run
from tests.unit.controller.fleet.timed_host import TimedHost
if __name__ == "__main__":
    end = run(Path(sys.argv[1]), {"a": TimedHost(0.2), "b": TimedHost(0.2)})
    print(*end.sentences)
    sys.exit(int(end.exit_code))
"""


def started(tmp_path: Path) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "s")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        journal = tmp_path / "s" / "journal.jsonl"
        if journal.exists() and '"state":"done"' in journal.read_text():
            return process
        time.sleep(0.02)
    raise TimeoutError(process.communicate())


def test_an_interrupt_reaches_every_host(tmp_path: Path) -> None:
    process = started(tmp_path)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == Exit.INTERRUPTED, err
    assert "interrupted with" in out
    assert "Traceback" not in err
    state = state_of(tmp_path / "s")
    assert state.stopped
    assert not state.unfinished()
    assert run(tmp_path / "s", {"a": TimedHost(), "b": TimedHost()}).exit_code is Exit.OK
    assert check(tmp_path / "s").superseded == []


def test_a_killed_controller_takes_its_hosts_with_it(tmp_path: Path) -> None:
    process = started(tmp_path)
    children = [int(pid) for pid in _children(process.pid)]
    assert len(children) >= 2
    process.kill()
    process.communicate(timeout=30)
    deadline = time.monotonic() + 5
    while any(_alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(_alive(pid) for pid in children)
    assert run(tmp_path / "s", {"a": TimedHost(), "b": TimedHost()}).exit_code is Exit.OK
    check(tmp_path / "s")


def test_a_host_that_refuses_ends_the_whole_sweep_at_once(tmp_path: Path) -> None:
    started_at = time.monotonic()
    with pytest.raises(LockedError, match=r"a: another sweep holds it\."):
        run(tmp_path / "s", {"a": TimedHost(locked_at=0), "b": TimedHost(30.0)})
    assert time.monotonic() - started_at < 20  # "b" did not finish its launch of half a minute
    assert state_of(tmp_path / "s").host("a").lost == ""


def test_a_journal_that_cannot_be_written_ends_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "journal.jsonl").symlink_to("/dev/full")
    with pytest.raises(JournalError):
        FleetSweep(
            fleet_plan(1, {"a": TimedHost()}), tmp_path / "s", state_of_nothing(), {"a": TimedHost()}, Heard()
        ).run()


def state_of_nothing() -> SweepState:
    from controller.sweep.state import SweepState  # noqa: PLC0415

    return SweepState()


def _children(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123
        return file.read().split()


def _alive(pid: int) -> bool:
    from controller.process import start_ticks  # noqa: PLC0415

    return start_ticks(pid) is not None


def test_attempts_count_on(tmp_path: Path) -> None:
    run(tmp_path / "s", {"a": TimedHost(unreachable_at=1), "b": TimedHost()}, blocks=2)
    launches = Counter(
        (record["cell"], record["attempt"])
        for record in read_journal(tmp_path / "s" / "journal.jsonl").records
        if record["kind"] == "cell" and record["state"] == "launching"
    )
    assert set(launches.values()) == {1}
