"""Holding a node while it is changed: its lock, its history, the signals, and what a killed controller left on it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.lock import NodeLock, node_key
from controller.sweep import leftovers
from controller.sweep.interrupt import Interrupts
from controller.sweep.leftovers import RunningNote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from controller.apply.history import History
    from controller.inventory import Target
    from controller.journal import Journal
    from controller.lock import Holder


@dataclass(slots=True)
class Work:
    """What the holder of a node works with.

    Attributes:
        number: Of the deployment, once it is in the history.
        launches: How often a server was launched.
        settled: Whether the server and the history agree; else the note of the lock stays behind.
        leftover: What a killed sweep or deployment left.
    """

    journal: Journal
    interrupts: Interrupts
    number: int = 0
    launches: int = 0
    settled: bool = True
    leftover: leftovers.Leftover | None = None

    def end_what_runs(self) -> int:
        """End the Ansible that a killed controller left, before anything else touches the node; return how many."""
        return len(leftovers.finish(self.leftover)) if self.leftover is not None else 0

    def settle(self) -> None:
        """Nothing is half done any more, neither of this deployment nor of what was cut off before it."""
        self.settled = True
        if self.leftover is not None and self.launches:
            RunningNote(self.leftover.directory, self.leftover.sweep_id).remove()


@contextmanager
def holding(
    target: Target,
    history: History,
    note: RunningNote,
    what: str,
    *,
    last_words: Callable[[], str],
    on_asked: Callable[[], None],
    lock_directory: Path | None = None,
) -> Iterator[Work]:
    """Hold a node, its history and the signals.

    Args:
        target: The node.
        history: Of the node.
        note: Says what runs while the node is held.
        what: Shown to whoever finds the node held.
        last_words: Written when the operator does not want to wait.
        on_asked: Called when the operator asks to stop.
        lock_directory: Where locks are; the user's state directory by default.

    Raises:
        LockedError: a sweep or another deployment holds the node.
        JournalError: the history cannot be written.
    """
    lock = NodeLock(node_key(target.lock_identity), target.title, lock_directory)
    lock.acquire(what, history.directory, work="deployment")
    before = lock.predecessor
    work: Work | None = None
    try:
        with history.open() as journal, Interrupts(last_words, on_asked) as interrupts:
            work = Work(journal, interrupts, leftover=leftovers.left_by(before))
            yield work
    finally:
        _let_go(lock, before, work, note)


def _let_go(lock: NodeLock, before: Holder | None, work: Work | None, note: RunningNote) -> None:
    if work is not None and not work.settled:
        lock.abandon()
        return
    launched = work is not None and work.launches > 0
    if launched or before is None:
        note.remove()
        lock.release()
    else:
        lock.restore(before)
