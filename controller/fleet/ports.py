"""What the fleet needs from the rest, and the messages between the coordinator and the process of each host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controller.exits import Exit
    from controller.journal import Journal
    from controller.plan import Cell, Plan
    from controller.sweep.interrupt import Interrupts
    from controller.sweep.ports import Watcher


@dataclass(frozen=True, slots=True)
class CellEnd:
    """How one launch ended. ``fatal``: the host cannot be reached, or Ansible cannot run on it at all."""

    cell_id: str
    state: str
    sentence: str = ""
    fatal: bool = False


class HostRunner(Protocol):
    """Runs cells on one host, within the process of that host. Journals what it does; the journal is the truth."""

    def open(self) -> Mapping[str, str]:
        """Take the host, clean up what a dead controller left, and return what the host is made of.

        Raises:
            TargetError: the host cannot be reached: it is lost.
            ControllerError: anything else refuses the whole sweep (another one holds the host, the journal is full).
        """

    def launch(self, cells: Sequence[tuple[Cell, int]]) -> Iterator[CellEnd]:
        """Launch cells of one block, each with its attempt, and yield how each ended; a fatal end is the last."""

    def close(self) -> str:
        """Stop the server, give the host back; return what went wrong, empty when nothing did."""


class MakeRunner(Protocol):
    """Makes the runner of a host in that host's process; it is sent there, so it must survive pickling."""

    def __call__(self, journal: Journal, interrupts: Interrupts, watcher: Watcher) -> HostRunner:
        """Return the runner."""


class FleetWatcher(Protocol):
    """Is told what happens on all hosts, to show it. Every call returns at once."""

    def sweep_started(self, plan: Plan, pending: Sequence[Cell], reused: int) -> None:
        """The plan is known."""

    def more_to_do(self, count: int) -> None:
        """Launches were added to the plan, or count no more and are made again elsewhere."""

    def on(self, host: str) -> Watcher:
        """Return who watches one host."""

    def note(self, text: str) -> None:
        """Something about the whole sweep that the operator must know."""


class Leases(Protocol):
    """Says which blocks this controller may do. Alone it may do all of them; with others it asks a shared plan."""

    @property
    def interval_s(self) -> float:
        """How often :meth:`renew` and :meth:`others` want to be called, in seconds."""

    def agree(self, identity: Mapping[str, str]) -> Mapping[str, str]:
        """Return what the hosts of the first controller are made of, ours when this is the first; empty when alone."""

    def keep(self, blocks: Sequence[int]) -> set[int]:
        """Return which of the blocks that this controller has launches of are still its own."""

    def take(self, host: str, wanted: Sequence[int]) -> int | None:
        """Return the first of the wanted blocks that is free, now taken for ``host``; None when none is."""

    def finish(self, block: int) -> bool:
        """A block is done; return whether it was still this controller's, so that its launches count."""

    def give_back(self, block: int) -> None:
        """Let somebody else have a block."""

    def renew(self) -> set[int]:
        """Say that this controller lives; return the blocks that it has lost nevertheless."""

    def others(self) -> Others:
        """Return what other controllers did and do."""

    def close(self) -> None:
        """End."""


@dataclass(frozen=True, slots=True)
class Others:
    """Blocks of other controllers, and a sentence when nobody can say."""

    done: frozenset[int] = frozenset()
    at_work: frozenset[int] = frozenset()
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class DoBlock:
    """To a host: launch these cells."""

    block: int
    cells: tuple[tuple[Cell, int], ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """To a host: stop the server and end."""


@dataclass(frozen=True, slots=True)
class Opened:
    """From a host: it is taken, clean, and made of this."""

    identity: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ended:
    """From a host: one launch ended."""

    end: CellEnd


@dataclass(frozen=True, slots=True)
class BlockEnded:
    """From a host: nothing of the block is left to launch, or it was interrupted."""

    block: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """From a host: it takes no more part."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """From a host: the whole sweep must end."""

    exit_code: Exit
    sentence: str


@dataclass(frozen=True, slots=True)
class Said:
    """From a host: a call of its watcher."""

    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """From a host: it is given back; ``trouble`` says what could not be stopped."""

    trouble: str


ToHost = DoBlock | Leave
FromHost = Opened | Ended | BlockEnded | Lost | Refused | Said | Left
