"""Several controllers, one plan in a real PostgreSQL: each block counts once, whoever dies or is cut off."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controller.exits import Exit, InputError, TargetError
from controller.fleet.coordinator import FleetSweep
from controller.fleet.identity import HostsDifferError
from controller.fleet.shared_leases import SharedLeases
from controller.fleet.shared_plan import for_hosts, join, publish, same_plan
from controller.load.workload import load as load_workload
from controller.sweep.results import read_sweep
from controller.sweep.state import CellState
from tests.integration.postgresql import Cluster, missing, wait_until
from tests.unit.controller.fleet.test_coordinator import fleet_plan
from tests.unit.controller.fleet.timed_host import Heard, TimedHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from controller.plan import Plan
    from controller.sweep.ending import SweepEnd

WORKLOAD = load_workload("mixed", seed=1)


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """Skips where PostgreSQL is missing."""
    absent = missing()
    if absent:
        pytest.skip(absent)
    running = Cluster.start()
    yield running
    running.remove()


@pytest.fixture
def database(server: Cluster) -> Cluster:
    server.empty()
    return server


def shared(database: Cluster, blocks: int = 4) -> Plan:
    plan = replace(fleet_plan(blocks, {"a": TimedHost()}), shared=True)
    publish(database.url, plan, WORKLOAD)
    return plan


def leases(database: Cluster, holder: str, lease_s: float = 30.0) -> SharedLeases:
    return SharedLeases(database.url, "S1", holder, lease_s=lease_s)


def test_a_published_plan_is_read_back_with_its_prompts(database: Cluster) -> None:
    plan = shared(database)
    found, prompts = join(database.url, "S1")
    assert found == plan
    assert prompts == WORKLOAD.lines()
    assert same_plan(plan, for_hosts(found, ["x"], "/other"))
    assert not same_plan(plan, replace(found, seed=7))
    with pytest.raises(InputError, match="the newest are: S1"):
        join(database.url, "S9")


def test_a_database_that_is_not_there_is_a_target_that_cannot_be_reached(database: Cluster) -> None:
    with pytest.raises(TargetError, match="cannot be used"):
        join(f"postgresql://tester@/postgres?host={database.folder}/nowhere", "S1")


def test_nobody_gets_a_block_that_another_has(database: Cluster) -> None:
    shared(database, blocks=40)
    holders = [leases(database, f"c{number}") for number in range(8)]

    def take_all(one: SharedLeases) -> list[int]:
        wanted, taken = list(range(1, 41)), []
        while (block := one.take("h", wanted)) is not None:
            wanted.remove(block)
            taken.append(block)
        return taken

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(take_all, holders))
    everything = sorted(block for taken in results for block in taken)
    # SKIP LOCKED: who meets only rows that others are taking just now goes home early, but nothing is had twice.
    assert len(everything) == len(set(everything))
    assert set(everything) <= set(range(1, 41))
    assert len(everything) >= 8
    for one in holders:
        one.close()


def test_a_lease_that_runs_out_goes_to_another_and_the_late_finisher_is_told(database: Cluster) -> None:
    shared(database)
    slow, quick = leases(database, "slow", lease_s=1.5), leases(database, "quick")
    assert slow.take("a", [1, 2]) == 1
    assert quick.take("b", [1]) is None
    assert quick.others().at_work == {1}
    time.sleep(1.7)
    assert quick.others().at_work == frozenset()
    assert quick.take("b", [1]) == 1
    assert slow.renew() == {1}
    assert not slow.finish(1)
    assert quick.finish(1)
    assert slow.others().done == {1}
    assert slow.keep([1, 2]) == set()


def test_a_heartbeat_keeps_a_lease(database: Cluster) -> None:
    shared(database)
    one, other = leases(database, "one", lease_s=2.0), leases(database, "other")
    assert one.take("a", [3]) == 3
    for _ in range(5):
        time.sleep(0.5)
        assert one.renew() == set()
        assert other.take("b", [3]) is None


def test_a_block_that_was_given_back_is_free_and_still_the_old_holders_until_taken(database: Cluster) -> None:
    shared(database)
    one, other = leases(database, "one"), leases(database, "other")
    assert one.take("a", [1]) == 1
    one.give_back(1)
    assert one.keep([1]) == {1}
    assert other.take("b", [1]) == 1
    assert one.keep([1]) == set()
    assert one.take("a", [1]) is None


def test_a_restart_of_the_database_is_survived_and_a_long_silence_gives_the_blocks_up(database: Cluster) -> None:
    shared(database)
    one = leases(database, "one", lease_s=3.0)
    assert one.take("a", [1]) == 1
    database.end()
    try:
        assert one.take("a", [2]) is None
        assert one.renew() == set()
        assert one.others().trouble == ""
    finally:
        database.begin()
    assert one.renew() == set()
    assert one.take("a", [2]) == 2
    database.end()
    try:
        time.sleep(3.2)
        assert one.renew() == {1, 2}
        assert not one.finish(1)
        assert "did not answer" in one.others().trouble
    finally:
        database.begin()


def controller(database: Cluster, directory: Path, hosts: dict[str, TimedHost], lease_s: float = 4.0) -> SweepEnd:
    """Run one controller of the shared plan, new or resumed."""
    directory.mkdir(exist_ok=True)
    if not (directory / "plan.json").exists():
        plan, _ = join(database.url, "S1")
        for_hosts(plan, list(hosts), "/inventory").write(directory / "plan.json")
    decided, state = read_sweep(directory)
    found = SharedLeases(database.url, "S1", directory.name, lease_s=lease_s)
    return FleetSweep(decided, directory, state, hosts, Heard(), leases=found).run()


def test_hosts_that_differ_from_those_of_the_first_controller_are_refused(database: Cluster, tmp_path: Path) -> None:
    shared(database, blocks=1)
    new = TimedHost(identity={"driver": "580", "GPUs": "GPU-1"})
    assert controller(database, tmp_path / "one", {"a": new}).exit_code is Exit.OK
    old = TimedHost(identity={"driver": "570", "GPUs": "GPU-2"})
    with pytest.raises(HostsDifferError, match="on b driver is 570, not 580"):
        controller(database, tmp_path / "two", {"b": old})
    like_it = TimedHost(identity={"driver": "580", "GPUs": "GPU-3"})
    assert controller(database, tmp_path / "three", {"c": like_it}).exit_code is Exit.OK


SCRIPT = """
import sys
from pathlib import Path
from tests.integration.postgresql import Cluster
from tests.integration.test_shared_plan import controller
from tests.unit.controller.fleet.timed_host import TimedHost
if __name__ == "__main__":
    names = sys.argv[3].split(",")
    hosts = {name: TimedHost(float(sys.argv[4])) for name in names}
    end = controller(Cluster(Path(sys.argv[1])), Path(sys.argv[2]), hosts)
    print(*end.sentences)
    sys.exit(int(end.exit_code))
"""


def start(database: Cluster, directory: Path, hosts: str, seconds: float) -> subprocess.Popen[str]:
    script = directory.parent / "script.py"
    script.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(script), str(database.folder), str(directory), hosts, str(seconds)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(directory: Path) -> dict[int, int]:
    """Return {block: measured launches} of the blocks that a controller finished."""
    plan, state = read_sweep(directory)
    return {
        number: sum(state.cell(cell.cell_id).state is CellState.DONE for cell in plan.cells if cell.block == number)
        for number in state.finished_blocks
    }


def test_two_controllers_share_the_blocks_and_one_of_them_is_killed(database: Cluster, tmp_path: Path) -> None:
    shared(database, blocks=12)
    one, two = tmp_path / "one", tmp_path / "two"
    dying = start(database, one, "a", 0.3)
    staying = start(database, two, "b,c", 0.1)
    wait_until(lambda: (one / "journal.jsonl").exists() and '"state":"done"' in (one / "journal.jsonl").read_text())
    dying.kill()
    dying.communicate(timeout=30)
    out, err = staying.communicate(timeout=120)
    assert staying.returncode == Exit.OK, err
    counts = [finished(one), finished(two)]
    assert sorted([*counts[0], *counts[1]]) == list(range(1, 13))
    assert {count for one_of in counts for count in one_of.values()} == {3}
    assert ("blocks are with other controllers" in out) is bool(counts[0])
    # The killed one learns on its return that its half-done block was done by another.
    assert controller(database, one, {"a": TimedHost()}).exit_code is Exit.OK
    assert sorted([*finished(one), *finished(two)]) == list(range(1, 13))
    _, state = read_sweep(one)
    left = [cell for cell, history in state.cells.items() if history.state is CellState.DONE]
    assert len(left) == 3 * len(finished(one))
