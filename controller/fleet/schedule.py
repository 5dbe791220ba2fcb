"""Which host does which block: a pure state machine over (plan, journal) and events, without clock, process or file.

A block is done whole by one host, because arms are compared within a block: a block whose launches came from two hosts
would compare hosts. When a host is lost, its unfinished block goes back and the next host does all of it anew; the
launches that the lost host had measured stay in the journal and do not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controller.plan import Cell

FAILURES_OF_A_BAD_HOST = 3
"""So many launches in a row fail on one host although their arms were measured on others: then the host is at fault."""


class ScheduleError(Exception):
    """An event that cannot happen in this state: a fault of the caller."""


@dataclass(slots=True)
class Block:
    """One block.

    Attributes:
        cells: In launch order.
        done: Cells that are measured; all of them on ``host``.
        host: Who measured them; empty while nothing is measured.
        taken_by: The host that is at work on it; empty when none is.
        closed: Nothing more is launched of it in this run of the sweep.
        ended_by: The host that closed it.
        elsewhere: Another controller did it.
    """

    number: int
    cells: tuple[Cell, ...]
    done: set[str] = field(default_factory=set)
    host: str = ""
    taken_by: str = ""
    closed: bool = False
    ended_by: str = ""
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """A host gets a block: what it launches, and which measured launches of another host count no more."""

    block: int
    host: str
    cells: tuple[Cell, ...]
    dropped: tuple[str, ...] = ()
    taken_from: str = ""


class Schedule:
    """The state of every block and host, and the transitions between them."""

    def __init__(self, cells: Iterable[Cell], hosts: Sequence[str], measured: Mapping[str, str] | None = None) -> None:
        """Begin, or go on.

        Args:
            cells: Of the plan.
            hosts: That take part in this run.
            measured: {cell id: host} of what an earlier run measured and what still counts.
        """
        self._blocks: dict[int, Block] = {}
        self._living = dict.fromkeys(hosts)
        self._working: dict[str, Block] = {}
        self._measured_arms: dict[str, set[str]] = {}
        self._failures: dict[str, int] = dict.fromkeys(hosts, 0)
        self.add(cells, measured or {})

    def add(self, cells: Iterable[Cell], measured: Mapping[str, str] | None = None) -> None:
        """Add blocks, decided on the way or read back."""
        found = measured or {}
        groups: dict[int, list[Cell]] = {}
        for cell in sorted(cells, key=lambda cell: cell.order):
            groups.setdefault(cell.block, []).append(cell)
        for number, members in groups.items():
            if number in self._blocks:
                raise ScheduleError(f"block {number} is there already")
            done = {cell.cell_id for cell in members if cell.cell_id in found}
            owners = {found[cell_id] for cell_id in done}
            if len(owners) > 1:
                raise ScheduleError(f"the launches of block {number} come from several hosts: {sorted(owners)}")
            host = next(iter(owners), "")
            complete = len(done) == len(members)
            self._blocks[number] = Block(
                number, tuple(members), done, host, closed=complete, ended_by=host if complete else ""
            )
            for cell in members:
                if cell.cell_id in done:
                    self._measured_arms.setdefault(host, set()).add(cell.arm)

    @property
    def blocks(self) -> Mapping[int, Block]:
        """Every block by number."""
        return self._blocks

    @property
    def living(self) -> list[str]:
        """The hosts that take part."""
        return list(self._living)

    @property
    def open_blocks(self) -> list[int]:
        """Blocks of which something must still be launched, those at work included."""
        return [block.number for block in self._blocks.values() if not block.closed]

    @property
    def working(self) -> dict[str, int]:
        """{host: block} of the hosts at work."""
        return {host: block.number for host, block in self._working.items()}

    @property
    def idle(self) -> list[str]:
        """The hosts that take part and have nothing to do."""
        return [host for host in self._living if host not in self._working]

    def candidates(self, host: str) -> list[int]:
        """Return the blocks that an idle host may take, best first.

        Its own half-done ones come first, then untouched ones, then those of lost hosts, which may yet come back. A
        half-done block of a living host waits for that host.
        """
        if host not in self._living or host in self._working:
            return []
        free = [
            block
            for block in self._blocks.values()
            if not block.closed and not block.taken_by and (block.host in ("", host) or block.host not in self._living)
        ]
        return [
            block.number
            for block in sorted(free, key=lambda block: (block.host != host, block.host != "", block.number))
        ]

    def assign(self, host: str, number: int) -> Assignment:
        """Give a block to a host.

        Raises:
            ScheduleError: the host may not take it now.
        """
        if number not in self.candidates(host):
            raise ScheduleError(f"{host} may not take block {number} now")
        block = self._blocks[number]
        dropped: tuple[str, ...] = ()
        before = block.host if block.host != host else ""
        if before:
            dropped = self._forget(block)
        block.taken_by = host
        self._working[host] = block
        left = tuple(cell for cell in block.cells if cell.cell_id not in block.done)
        return Assignment(number, host, left, dropped, before)

    def cell_done(self, host: str, cell_id: str) -> None:
        """A launch of the block that the host is at work on was measured."""
        block, cell = self._at_work(host, cell_id)
        if cell_id in block.done:
            raise ScheduleError(f"{cell_id} was measured twice")
        block.done.add(cell_id)
        block.host = host
        self._failures[host] = 0
        self._measured_arms.setdefault(host, set()).add(cell.arm)

    def cell_failed(self, host: str, cell_id: str) -> None:
        """A launch failed. It counts against the host when another one has measured the arm."""
        _, cell = self._at_work(host, cell_id)
        if any(cell.arm in arms for other, arms in self._measured_arms.items() if other != host):
            self._failures[host] += 1

    def is_failing(self, host: str) -> bool:
        """Whether launches fail on this host in a row that work elsewhere."""
        return self._failures[host] >= FAILURES_OF_A_BAD_HOST

    def block_ended(self, host: str) -> int:
        """The host launched everything it was asked for; return the block, which is closed now."""
        block = self._of(host)
        self._free(block)
        block.closed, block.ended_by = True, host
        return block.number

    def host_lost(self, host: str) -> list[int]:
        """A host takes no more part. Return the blocks that other hosts must do.

        They are the one it was at work on, and those that it closed without one measured launch: such a block says
        more about the host than about the arms.
        """
        self._living.pop(host, None)
        back = []
        for block in self._blocks.values():
            nothing = block.closed and block.ended_by == host and not block.done and not block.elsewhere
            if block.taken_by == host or nothing:
                self._free(block)
                block.closed, block.ended_by = False, ""
                back.append(block.number)
        return back

    def drop(self, number: int) -> tuple[str, ...]:
        """Another controller has the block now: what was measured here counts no more. Return those launches."""
        block = self._blocks[number]
        self._free(block)
        block.closed, block.ended_by = False, ""
        return self._forget(block)

    def done_elsewhere(self, number: int) -> None:
        """Another controller did the block."""
        block = self._blocks[number]
        if block.taken_by or block.done:
            raise ScheduleError(f"block {number} is at work here")
        block.closed, block.elsewhere = True, True

    def _forget(self, block: Block) -> tuple[str, ...]:
        dropped = tuple(cell.cell_id for cell in block.cells if cell.cell_id in block.done)
        block.done, block.host = set(), ""
        return dropped

    def _free(self, block: Block) -> None:
        self._working.pop(block.taken_by, None)
        block.taken_by = ""

    def _of(self, host: str) -> Block:
        block = self._working.get(host)
        if block is None:
            raise ScheduleError(f"{host} is not at work")
        return block

    def _at_work(self, host: str, cell_id: str) -> tuple[Block, Cell]:
        block = self._of(host)
        for cell in block.cells:
            if cell.cell_id == cell_id:
                return block, cell
        raise ScheduleError(f"{cell_id} is not in block {block.number}, which {host} is at work on")
