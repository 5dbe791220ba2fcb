"""Runs the cells of one host of a fleet through Ansible, with what a sweep of one host uses (``HostSession``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.exits import JournalError, TargetError
from controller.fleet.ports import CellEnd
from controller.paths import make_private
from controller.sweep.files import HOSTS
from controller.sweep.prepare import Equipment
from controller.sweep.session import HostSession
from controller.sweep.state import HostState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from controller.inventory import Target
    from controller.journal import Journal
    from controller.load.workload import Workload
    from controller.plan import Cell, Plan
    from controller.sweep.interrupt import Interrupts
    from controller.sweep.ports import Watcher

LOCK_PATIENCE_S = 5.0
"""The process of a killed coordinator needs a moment to notice."""


@dataclass(frozen=True, slots=True)
class AnsibleHost:
    """Makes the runner of one host in that host's process.

    Attributes:
        found: What the journal says about the host.
    """

    plan: Plan
    directory: Path
    target: Target
    workload: Workload
    found: HostState = field(default_factory=HostState)
    leave_running: bool = False
    accept_changes: bool = False

    def __call__(self, journal: Journal, interrupts: Interrupts, watcher: Watcher) -> AnsibleRunner:
        """Return the runner."""
        workplace = self.directory / HOSTS / self.target.host
        make_private(workplace)
        # Here, so that no key travels to this process.
        equipment = Equipment.of(self.target, workplace, self.plan.sweep_id, self.workload, watcher)
        session = HostSession(
            plan=self.plan,
            directory=self.directory,
            workplace=workplace,
            target=self.target,
            found=self.found,
            playbooks=equipment.playbooks,
            load=equipment.load,
            watcher=watcher,
            note=equipment.note,
            leave_running=self.leave_running,
            accept_changes=self.accept_changes,
        )
        return AnsibleRunner(session, journal, interrupts)


class AnsibleRunner:
    """A ``HostRunner`` over a session."""

    def __init__(self, session: HostSession, journal: Journal, interrupts: Interrupts) -> None:
        self._session = session
        self._journal = journal
        self._interrupts = interrupts
        self._locked = self._begun = False

    def open(self) -> Mapping[str, str]:
        """Lock the host, clean up, prepare it (two hosts are alike only then), and ask what it is made of.

        Raises:
            LockedError: another sweep holds the host.
            TargetError: it cannot be reached.
        """
        self._session.lock(LOCK_PATIENCE_S)
        self._locked = True
        self._session.recover(self._journal)
        self._session.begin(self._journal, self._interrupts)
        self._begun = True
        trouble, identity = self._session.identify()
        if trouble is not None:
            raise TargetError(trouble.failure.sentence if trouble.failure else "interrupted")
        self._journal.append("host", state="joined", identity=identity)
        return identity

    def launch(self, cells: Sequence[tuple[Cell, int]]) -> Iterator[CellEnd]:
        """Launch the cells of a block."""
        for (cell, _), outcome in zip(cells, self._session.launch(cells, self._interrupts), strict=False):
            sentence = outcome.failure.sentence if outcome.failure else ""
            yield CellEnd(cell.cell_id, outcome.state.value, sentence, outcome.fatal)

    def close(self) -> str:
        """Stop the server and give the host back."""
        trouble = ""
        try:
            if self._begun:
                trouble = self._session.stop(self._journal, self._interrupts)
        except JournalError as error:
            trouble = error.sentence  # the server is stopped all the same; the record of it is missing
        finally:
            if self._locked:
                self._session.close()
        return trouble
