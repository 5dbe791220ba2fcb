"""Drives a sweep over a fleet: hands out blocks, takes back what a lost host leaves, ends when all is done."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.exits import Exit
from controller.fleet import identity
from controller.fleet.crew import Crew
from controller.fleet.ending import FleetEnding, ended, raise_refusal
from controller.fleet.leases import Alone
from controller.fleet.ports import BlockEnded, DoBlock, Ended, Leave, Left, Lost, Opened, Refused, Said
from controller.fleet.schedule import Schedule
from controller.journal import Journal, read_journal
from controller.sweep.entries import record_abandoned
from controller.sweep.files import JOURNAL
from controller.sweep.interrupt import Interrupts
from controller.sweep.state import CellState, SweepState, fold
from controller.sweep.sweep import begin_journal, grown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from controller.fleet.ports import FleetWatcher, FromHost, Leases, MakeRunner
    from controller.plan import Plan
    from controller.sweep.ending import SweepEnd

WAIT_S = 0.5
FIRST = "the hosts of the first controller"
FAILING = "its launches fail although the same arms work on other hosts"


@dataclass(slots=True)
class FleetSweep:
    """One run of ``sweep`` on several hosts, new or resumed.

    Attributes:
        runners: What runs cells on each host, in the order of the inventory.
        leases: Says which blocks this controller may do.
    """

    plan: Plan
    directory: Path
    state: SweepState
    runners: Mapping[str, MakeRunner]
    watcher: FleetWatcher
    leases: Leases = field(default_factory=Alone)
    accept_changes: bool = False
    header: Mapping[str, Any] = field(default_factory=dict)
    _schedule: Schedule = field(init=False)
    _crew: Crew = field(init=False)
    _journal: Journal = field(init=False)
    _interrupts: Interrupts = field(init=False)
    _ending: FleetEnding = field(default_factory=FleetEnding)
    _identities: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _next_word: float = 0.0

    def run(self) -> SweepEnd:
        """Do every pending block, then those that the stop rule and the confirmation add.

        Raises:
            HostsDifferError: the hosts are not alike; nothing was launched.
            ConfigurationChangedError: a host of a resumed sweep is not what it was.
            LockedError: another sweep holds one of the hosts; nothing was launched.
            JournalError: a record could not be written; the servers were stopped, earlier records are safe.
        """
        self._interrupts = Interrupts(
            lambda: "quit at once: servers of this sweep may still run; resume it, or stop each host",
            lambda: self.watcher.note("stopping: the servers are being shut down"),
        )
        with self._interrupts, Journal(self.directory / JOURNAL) as self._journal:
            self._begin()
            self._crew = Crew(self.directory, self.runners)
            try:
                self._open_hosts()
                self._drive()
            except BaseException as error:
                # Nothing more is journaled: the journal itself may be the trouble.
                self._ending.refused = self._ending.refused or (Exit.RUN_FAILED, str(error))
                self._leave_all(interrupt=True)
                raise
            else:
                self._leave_all(interrupt=self._interrupts.asked or self._ending.refused is not None)
            finally:
                self._crew.end()
                self.leases.close()
            raise_refusal(self._ending)
            end = ended(self.plan, self.directory, self._schedule, self._ending, interrupted=self._interrupts.asked)
            self._journal.append("end", reason=end.exit_code.name.lower())
        return end

    def _begin(self) -> None:
        """Write how this run begins; what another controller has taken over meanwhile counts here no more."""
        pending = self.state.pending(self.plan)
        begin_journal(self._journal, self.plan, self.state, pending, self.header)
        self.watcher.sweep_started(self.plan, pending, len(self.plan.cells) - len(pending))
        self._schedule = Schedule(self.plan.cells, list(self.runners), _measured(self.plan, self.state))
        touched = [number for number, block in self._schedule.blocks.items() if block.done]
        for number in set(touched) - self.leases.keep(touched):
            self._drop(number, "another controller took the block over")

    def _open_hosts(self) -> None:
        """Wait until every host is taken and known; refuse hosts that are not alike."""
        waiting = set(self._schedule.living)
        while waiting and not self._over:
            for host, message in self._crew.messages(WAIT_S):
                self._take_in(host, message)
            waiting &= set(self._schedule.living) - set(self._identities)
        differing = identity.differences(self._everybodys_identities())
        if not differing or self._over:
            return
        if not self.accept_changes:
            raise identity.refusal(differing)
        self._journal.append("hosts_differ", differences=differing)
        self.watcher.note(f"going on although the hosts are not alike: {identity.sentence(differing)}")

    def _everybodys_identities(self) -> dict[str, Mapping[str, str]]:
        """Return what our hosts are made of, and those of the controller that was first when there are several."""
        ours = dict(self._identities)
        known = self.leases.agree(next(iter(ours.values()))) if ours else {}
        return {FIRST: known, **ours} if known else ours

    def _drive(self) -> None:
        """Until nothing is left to do, here or at another controller."""
        while not self._over:
            self._hear_of_others()
            self._hand_out()
            if not self._schedule.working and not self._more_to_do():
                return
            for host, message in self._crew.messages(WAIT_S):
                self._take_in(host, message)

    @property
    def _over(self) -> bool:
        """Whether to stop although something is left to do."""
        return self._interrupts.asked or self._ending.refused is not None or not self._schedule.living

    def _more_to_do(self) -> bool:
        """Return whether idle hosts should stay: blocks are left, some are added, or others may leave theirs to us."""
        if self._schedule.open_blocks:
            return not self._ending.trouble
        self.plan, cells = grown(self.plan, self.directory, self._journal, self.watcher.note)
        self._schedule.add(cells)
        self.watcher.more_to_do(len(cells))
        return bool(cells)

    def _hand_out(self) -> None:
        """Give each idle host a block."""
        for host in self._schedule.idle:
            if host in self._ending.lost:
                continue
            wanted = self._schedule.candidates(host)
            number = self.leases.take(host, wanted) if wanted else None
            if number is None:
                continue
            taken = self._schedule.assign(host, number)
            cells = tuple((cell, self.state.cell(cell.cell_id).attempt + 1) for cell in taken.cells)
            everything = [cell.cell_id for cell in self._schedule.blocks[number].cells]
            fields = {"taken_from": taken.taken_from, "dropped": everything} if taken.taken_from else {}
            self._journal.append("block", block=number, host=host, state="taken", **fields)
            if taken.taken_from:
                self.watcher.more_to_do(len(taken.dropped))
                self.watcher.note(
                    f"block {number} begins anew on {host}; {len(taken.dropped)} launch"
                    f"{'es' if len(taken.dropped) > 1 else ''} on {taken.taken_from} count no more"
                )
            self._crew.tell(host, DoBlock(number, cells))

    def _take_in(self, host: str, message: FromHost) -> None:
        """One message of a host."""
        match message:
            case Said(name, arguments):
                getattr(self.watcher.on(host), name)(*arguments)
            case Opened(found):
                self._identities[host] = found
            case Ended(end):
                self._cell_ended(host, end.cell_id, end.state)
            case BlockEnded(block, whole):
                self._block_ended(host, block, whole=whole)
            case Lost(reason):
                self._lose(host, reason)
            case Refused(code, sentence):
                self._ending.refused = self._ending.refused or (code, sentence)
            case Left(trouble):
                self._has_left(host, trouble)

    def _cell_ended(self, host: str, cell_id: str, state: str) -> None:
        self.state.cell(cell_id).attempt += 1
        if host not in self._schedule.working:
            return  # the block was taken from the host meanwhile
        if state == CellState.DONE.value:
            self._schedule.cell_done(host, cell_id)
            self._ending.failed.discard(cell_id)
        elif state == CellState.FAILED.value:
            self._ending.failed.add(cell_id)
            self._schedule.cell_failed(host, cell_id)
            if self._schedule.is_failing(host):
                self._lose(host, FAILING)

    def _block_ended(self, host: str, number: int, *, whole: bool) -> None:
        if self._schedule.working.get(host) != number or not whole:
            return
        if self.leases.finish(number):
            self._schedule.block_ended(host)
            self._journal.append("block", block=number, host=host, state="finished")
        else:
            self._drop(number, "another controller took the block over")

    def _lose(self, host: str, reason: str) -> None:
        """A host takes no more part. Its block goes on when its process has left, so that nobody writes of it twice."""
        if host not in self._schedule.living or host in self._ending.lost:
            return
        if self._ending.refused or self._interrupts.asked:
            return  # every host leaves now, each in its own way
        self._ending.lost[host] = reason
        self._journal.append("host", host=host, state="lost", reason=reason)
        self.watcher.note(f"{host} is lost: {reason}")
        self._crew.dismiss(host)

    def _has_left(self, host: str, trouble: str) -> None:
        if trouble:
            self._ending.not_stopped[host] = trouble
        if host not in self._ending.lost or self._ending.refused:
            return
        for number in self._schedule.host_lost(host):
            self._ending.failed -= {cell.cell_id for cell in self._schedule.blocks[number].cells}
            self.leases.give_back(number)
        self._read_back(host)

    def _read_back(self, host: str) -> None:
        """Learn from the journal how far a host came that can no longer say so, and close its launch there."""
        state = fold(read_journal(self.directory / JOURNAL).records, str(self.directory / JOURNAL))
        for cell_id, history in state.cells.items():
            mine = self.state.cell(cell_id)
            mine.attempt = max(mine.attempt, history.attempt)
            if history.host == host and history.state.unfinished:
                record_abandoned(self._journal, cell_id, history.attempt, "host lost", host=host)

    def _drop(self, number: int, reason: str) -> None:
        """What was measured of a block counts no more; a host that is at work on it must not go on."""
        block = self._schedule.blocks[number]
        host = block.taken_by
        self._schedule.drop(number)
        everything = [cell.cell_id for cell in block.cells]
        self._journal.append("block", block=number, state="dropped", dropped=everything, reason=reason)
        self.watcher.note(f"block {number} counts no more here: {reason}")
        if host:
            self._lose(host, f"block {number} was taken from it: {reason}")

    def _hear_of_others(self) -> None:
        """Keep the leases alive, and learn what other controllers did, now and then."""
        if time.monotonic() < self._next_word:
            return
        self._next_word = time.monotonic() + self.leases.interval_s
        for number in self.leases.renew():
            self._drop(number, "its lease ran out")
        others = self.leases.others()
        for number in others.done:
            block = self._schedule.blocks[number]
            if block.closed or block.taken_by:
                continue
            if block.done:
                self._drop(number, "another controller did it")
            self._schedule.done_elsewhere(number)
        self._ending.trouble = others.trouble

    def _leave_all(self, *, interrupt: bool) -> None:
        """Have every host stop its server, and hear each out."""
        for host in self._crew.present:
            if interrupt:
                self._crew.dismiss(host)
            self._crew.tell(host, Leave())
        while self._crew.present:
            for host, message in self._crew.messages(WAIT_S):
                self._take_in(host, message)


def _measured(plan: Plan, state: SweepState) -> dict[str, str]:
    """Return {cell: host} of the launches that count."""
    return {
        cell.cell_id: state.cell(cell.cell_id).host
        for cell in plan.cells
        if state.cell(cell.cell_id).state is CellState.DONE
    }
