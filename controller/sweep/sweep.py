"""The whole sweep: lock, recover what a dead controller left, run the pending cells, stop the server, sum up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.exits import Exit
from controller.journal import Journal
from controller.paths import display
from controller.plan import cell_json
from controller.sweep.ending import SweepEnd, keep_noise
from controller.sweep.entries import record_abandoned
from controller.sweep.files import JOURNAL, PLAN, PROMPTS
from controller.sweep.interrupt import Interrupts
from controller.sweep.session import HostSession
from controller.sweep.state import CellState, SweepState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from controller.inventory import Target
    from controller.plan import Cell, Plan
    from controller.sweep.leftovers import RunningNote
    from controller.sweep.outcome import CellOutcome
    from controller.sweep.ports import LoadGenerator, PreparingRunner, Watcher

__all__ = ["JOURNAL", "PLAN", "PROMPTS", "Sweep", "SweepEnd", "begin_journal", "grown"]


@dataclass(slots=True)
class Sweep:
    """One run of ``sweep`` on one host, new or resumed."""

    plan: Plan
    directory: Path
    target: Target
    state: SweepState
    playbooks: PreparingRunner
    load: LoadGenerator
    watcher: Watcher
    note: RunningNote
    leave_running: bool = False
    accept_changes: bool = False
    header: Mapping[str, Any] = field(default_factory=dict)
    lock_directory: Path | None = None

    def run(self) -> SweepEnd:
        """Run every pending cell, then those that the stop rule and the confirmation add.

        Raises:
            ConfigurationChangedError: a resumed sweep finds another configuration; nothing new was measured with it.
            LockedError: another sweep holds the node; nothing was touched.
            JournalError: a record could not be written; the server was stopped, earlier records are safe.
        """
        session = self._session()
        session.lock()
        interrupts = Interrupts(
            lambda: self._last_words(session), lambda: self.watcher.note("stopping: the server is being shut down")
        )
        try:
            with interrupts, Journal(self.directory / JOURNAL, fields={"host": self.target.host}) as journal:
                session.recover(journal)
                return self._run_cells(session, journal, interrupts)
        finally:
            session.close()

    def _session(self) -> HostSession:
        return HostSession(
            plan=self.plan,
            directory=self.directory,
            workplace=self.directory,
            target=self.target,
            found=self.state.host(self.target.host),
            playbooks=self.playbooks,
            load=self.load,
            watcher=self.watcher,
            note=self.note,
            leave_running=self.leave_running,
            accept_changes=self.accept_changes,
            lock_directory=self.lock_directory,
        )

    def _run_cells(self, session: HostSession, journal: Journal, interrupts: Interrupts) -> SweepEnd:
        pending = self.state.pending(self.plan)
        reused = len(self.plan.cells) - len(pending)
        begin_journal(journal, self.plan, self.state, pending, self.header)
        self.watcher.sweep_started(self.plan, pending, reused)
        if not pending:
            pending = self._grow(journal)
        if not pending:
            return self._end(journal, interrupts, [], 0, "")
        session.begin(journal, interrupts)
        total = len(pending)
        try:
            outcomes = list(session.launch(self._with_attempts(pending), interrupts))
            while _may_go_on(outcomes, interrupts) and (more := self._grow(journal)):
                total += len(more)
                outcomes += session.launch(self._with_attempts(more), interrupts)
        except BaseException:  # a full disk or a fault of ours: the server must not outlive it
            session.stop(None, interrupts)
            raise
        stop_trouble = session.stop(journal, interrupts)
        return self._end(journal, interrupts, outcomes, total, stop_trouble)

    def _with_attempts(self, cells: list[Cell]) -> list[tuple[Cell, int]]:
        return [(cell, self.state.cell(cell.cell_id).attempt + 1) for cell in cells]

    def _grow(self, journal: Journal) -> list[Cell]:
        self.plan, cells = grown(self.plan, self.directory, journal, self.watcher.note)
        return cells

    def _end(
        self, journal: Journal, interrupts: Interrupts, outcomes: list[CellOutcome], pending: int, stop_trouble: str
    ) -> SweepEnd:
        failed = [outcome for outcome in outcomes if outcome.state is CellState.FAILED]
        fatal = next((outcome.failure for outcome in failed if outcome.fatal and outcome.failure), None)
        again = f"python -m controller sweep --resume {display(self.directory)}"
        sentences = (
            [f"the server could not be stopped: {stop_trouble}; try: python -m controller stop"] if stop_trouble else []
        )
        if interrupts.asked:
            left = pending - sum(outcome.state is CellState.DONE for outcome in outcomes)
            code, last = Exit.INTERRUPTED, f"interrupted with {left} of {pending} cells left; go on with: {again}"
        elif fatal:
            code, last = Exit.TARGET, f"{fatal.sentence}; nothing was lost, go on with: {again}"
        elif failed:
            code, last = Exit.RUN_FAILED, f"{len(failed)} of {pending} cells failed; try only those again with: {again}"
        else:
            code, last = (Exit.TARGET, "") if stop_trouble else (Exit.OK, "")
        if self.plan.aa and code is Exit.OK:
            last = keep_noise(journal, self.directory, self.target)
        journal.append("end", reason=code.name.lower())
        if last:
            sentences.append(last)
        return SweepEnd(code, tuple(sentences))

    def _last_words(self, session: HostSession) -> str:
        return (
            f"quit at once: {session.last_words()}; stop it with: python -m controller stop; go on with: "
            f"python -m controller sweep --resume {display(self.directory)}"
        )


def begin_journal(
    journal: Journal, plan: Plan, state: SweepState, pending: list[Cell], header: Mapping[str, Any]
) -> None:
    """Write how a run of the sweep begins: its plan, or what of it is taken over and what is done again."""
    if state.header is None:
        journal.append("sweep", sweep_id=plan.sweep_id, plan=plan.as_json(), **header)
        return
    for cell_id in state.unfinished():
        record_abandoned(journal, cell_id, state.cell(cell_id).attempt, "controller died")
    repeated = [cell.cell_id for cell in pending]
    reused = [cell.cell_id for cell in plan.cells if cell.cell_id not in repeated]
    journal.append("resumed", reused=reused, repeated=repeated, **header)


def grown(plan: Plan, directory: Path, journal: Journal, note: Callable[[str], None]) -> tuple[Plan, list[Cell]]:
    """Add the launches that are wanted now to the plan; return the plan and the new launches."""
    if plan.max_blocks <= plan.blocks and not plan.confirm_blocks:
        return plan, []
    from controller.sweep.growth import wanted  # noqa: PLC0415 - imports scipy

    plan, growth = wanted(directory)
    if growth is None:
        return plan, []
    note(growth.sentence)
    if not growth.cells:
        return plan, []
    journal.append("extended", reason=growth.reason, cells=[cell_json(cell) for cell in growth.cells])
    return plan.with_cells(growth.cells), list(growth.cells)


def _may_go_on(outcomes: list[CellOutcome], interrupts: Interrupts) -> bool:
    """Return whether more launches make sense: nobody asked to stop, and the target still works."""
    stopped = any(outcome.fatal or outcome.state is CellState.ABANDONED for outcome in outcomes)
    return not interrupts.asked and not stopped
