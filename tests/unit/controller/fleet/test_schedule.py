"""Whatever happens to hosts, every block ends whole on one host, once."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controller.fleet.schedule import FAILURES_OF_A_BAD_HOST, Schedule, ScheduleError
from controller.plan import Cell

ARMS = ("baseline", "steps-2", "steps-3")


def cells(blocks: int, arms: tuple[str, ...] = ARMS, first: int = 1) -> list[Cell]:
    places = [(block, arm) for block in range(first, first + blocks) for arm in arms]
    return [
        Cell(f"b{block:02d}-{arm}", block, (first - 1) * len(arms) + order, arm)
        for order, (block, arm) in enumerate(places)
    ]


def do_block(schedule: Schedule, host: str, number: int | None = None, *, failing: int = 0) -> list[str]:
    """Let a host do a whole block, the first few launches failing."""
    taken = schedule.assign(host, number or schedule.candidates(host)[0])
    for place, cell in enumerate(taken.cells):
        if place < failing:
            schedule.cell_failed(host, cell.cell_id)
        else:
            schedule.cell_done(host, cell.cell_id)
    schedule.block_ended(host)
    return [cell.cell_id for cell in taken.cells]


def test_blocks_are_handed_out_in_order_and_each_once() -> None:
    schedule = Schedule(cells(3), ["a", "b"])
    first, second = schedule.assign("a", 1), schedule.assign("b", 2)
    assert [cell.arm for cell in first.cells] == list(ARMS)
    assert (first.dropped, second.dropped) == ((), ())
    assert schedule.candidates("a") == []
    for cell in first.cells:
        schedule.cell_done("a", cell.cell_id)
    assert schedule.block_ended("a") == 1
    assert schedule.candidates("a") == [3]
    assert schedule.working == {"b": 2}
    assert schedule.open_blocks == [2, 3]


def test_a_lost_hosts_half_done_block_is_done_whole_by_another() -> None:
    schedule = Schedule(cells(1), ["a", "b"])
    taken = schedule.assign("a", 1)
    schedule.cell_done("a", taken.cells[0].cell_id)
    assert schedule.candidates("b") == []
    assert schedule.host_lost("a") == [1]
    assert schedule.candidates("a") == []
    again = schedule.assign("b", 1)
    assert again.cells == taken.cells
    assert again.dropped == (taken.cells[0].cell_id,)
    assert again.taken_from == "a"


def test_a_resumed_host_finishes_its_own_half_done_block() -> None:
    schedule = Schedule(cells(2), ["a", "b"], {"b02-baseline": "b"})
    assert schedule.candidates("a") == [1]
    assert schedule.candidates("b") == [2, 1]
    assert [cell.arm for cell in schedule.assign("b", 2).cells] == ["steps-2", "steps-3"]


def test_a_half_done_block_of_a_host_that_is_not_there_any_more_is_free() -> None:
    schedule = Schedule(cells(1), ["b"], {"b01-baseline": "a"})
    taken = schedule.assign("b", 1)
    assert len(taken.cells) == 3
    assert taken.dropped == ("b01-baseline",)


def test_a_complete_block_of_an_earlier_run_stays_as_it_is() -> None:
    schedule = Schedule(cells(1), ["b"], {f"b01-{arm}": "a" for arm in ARMS})
    assert schedule.open_blocks == []
    assert schedule.host_lost("b") == []


def test_launches_of_two_hosts_in_one_block_are_a_fault() -> None:
    with pytest.raises(ScheduleError, match="several hosts"):
        Schedule(cells(1), ["a"], {"b01-baseline": "a", "b01-steps-2": "b"})


def test_a_host_on_which_everything_fails_that_works_elsewhere_is_failing() -> None:
    schedule = Schedule(cells(4), ["a", "b"])
    do_block(schedule, "a", failing=3)
    assert not schedule.is_failing("a")  # nobody knows yet whether the arms work at all
    do_block(schedule, "b")
    do_block(schedule, "a", failing=3)
    assert schedule.is_failing("a")
    assert FAILURES_OF_A_BAD_HOST == 3
    assert schedule.host_lost("a") == [1, 3]
    assert schedule.candidates("b") == [1, 3, 4]


def test_an_arm_that_fails_everywhere_makes_no_host_bad() -> None:
    schedule = Schedule(cells(8), ["a", "b"])
    for _ in range(4):
        do_block(schedule, "a", failing=1)
        do_block(schedule, "b", failing=1)
    assert not schedule.is_failing("a")
    assert not schedule.is_failing("b")
    assert schedule.open_blocks == []


def test_what_another_controller_has_is_not_done_here() -> None:
    schedule = Schedule(cells(3), ["a"], {"b02-baseline": "a"})
    schedule.done_elsewhere(1)
    assert schedule.drop(2) == ("b02-baseline",)
    schedule.done_elsewhere(2)
    assert schedule.candidates("a") == [3]
    schedule.assign("a", 3)
    with pytest.raises(ScheduleError):
        schedule.done_elsewhere(3)


def test_impossible_events_are_refused() -> None:
    schedule = Schedule(cells(2), ["a"])
    with pytest.raises(ScheduleError, match="may not take"):
        schedule.assign("b", 1)
    with pytest.raises(ScheduleError, match="not at work"):
        schedule.block_ended("a")
    schedule.assign("a", 1)
    schedule.cell_done("a", "b01-baseline")
    with pytest.raises(ScheduleError, match="twice"):
        schedule.cell_done("a", "b01-baseline")
    with pytest.raises(ScheduleError, match="not in block"):
        schedule.cell_done("a", "b02-baseline")
    with pytest.raises(ScheduleError, match="there already"):
        schedule.add(cells(1))


class Fleet(RuleBasedStateMachine):
    """Random hosts, failures, losses and resumes; the accounts are kept here from what was handed out alone."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, str] = {}  # {cell: host} of what counts
        self.left: dict[str, list[Cell]] = {}  # {host: cells still to launch}

    @initialize(hosts=st.integers(1, 5), blocks=st.integers(1, 8))
    def begin(self, hosts: int, blocks: int) -> None:
        self.names = [f"h{number}" for number in range(hosts)]
        self.plan = cells(blocks)
        self.schedule = Schedule(self.plan, self.names)

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        idle = [host for host in self.schedule.living if self.schedule.candidates(host)]
        if not idle:
            return
        host = data.draw(st.sampled_from(idle))
        taken = self.schedule.assign(host, data.draw(st.sampled_from(self.schedule.candidates(host))))
        for cell_id in taken.dropped:
            del self.counts[cell_id]
        self.left[host] = list(taken.cells)

    @precondition(lambda self: self.left)
    @rule(data=st.data(), works=st.sampled_from([True, True, True, False]))
    def launch(self, data: st.DataObject, works: bool) -> None:
        host = data.draw(st.sampled_from(sorted(self.left)))
        cell = self.left[host].pop(0)
        if works:
            assert cell.cell_id not in self.counts, "measured twice"
            self.counts[cell.cell_id] = host
            self.schedule.cell_done(host, cell.cell_id)
        else:
            self.schedule.cell_failed(host, cell.cell_id)
        if not self.left[host]:
            del self.left[host]
            self.schedule.block_ended(host)

    @precondition(lambda self: len(self.schedule.living) > 1)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        host = data.draw(st.sampled_from(self.schedule.living))
        self.schedule.host_lost(host)
        self.left.pop(host, None)

    @rule(hosts=st.integers(1, 5))
    def resume(self, hosts: int) -> None:
        """The controller dies; the next one knows only what counts."""
        self.names = [f"h{number}" for number in range(hosts)]
        self.left = {}
        self.schedule = Schedule(self.plan, self.names, self.counts)

    @rule()
    def grow(self) -> None:
        if len(self.plan) < 40:
            more = cells(1, first=self.plan[-1].block + 1)
            self.plan += more
            self.schedule.add(more)

    @invariant()
    def no_block_mixes_hosts(self) -> None:
        for number in self.schedule.blocks:
            hosts = {
                self.counts[cell.cell_id] for cell in self.plan if cell.block == number and cell.cell_id in self.counts
            }
            assert len(hosts) <= 1

    @invariant()
    def nobody_works_on_the_same_block(self) -> None:
        assert len(set(self.schedule.working.values())) == len(self.schedule.working) == len(self.left)

    @invariant()
    def a_free_block_finds_a_host(self) -> None:
        """Nothing is stuck: when every host is idle, somebody may take each open block."""
        if not self.schedule.working:
            reachable = {number for host in self.schedule.living for number in self.schedule.candidates(host)}
            assert reachable == set(self.schedule.open_blocks)

    def teardown(self) -> None:
        """Whatever happened, one living host is enough to finish, and then everything counts once or has failed."""
        if not hasattr(self, "schedule"):
            return
        for host in self.schedule.living:
            while self.left.get(host):
                self.launch_directly(host)
            while self.schedule.candidates(host):
                taken = self.schedule.assign(host, self.schedule.candidates(host)[0])
                for cell_id in taken.dropped:
                    del self.counts[cell_id]
                self.left[host] = list(taken.cells)
                while self.left.get(host):
                    self.launch_directly(host)
        assert self.schedule.open_blocks == []
        self.no_block_mixes_hosts()

    def launch_directly(self, host: str) -> None:
        cell = self.left[host].pop(0)
        assert cell.cell_id not in self.counts
        self.counts[cell.cell_id] = host
        self.schedule.cell_done(host, cell.cell_id)
        if not self.left[host]:
            del self.left[host]
            self.schedule.block_ended(host)


TestFleet = Fleet.TestCase
TestFleet.settings = settings(max_examples=80, stateful_step_count=40)
