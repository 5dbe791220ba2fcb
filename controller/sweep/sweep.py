"""The whole sweep: lock, recover what a dead controller left, run the pending cells, stop the server, sum up."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.exits import Exit, InputError
from controller.journal import Journal
from controller.lock import NodeLock, node_key
from controller.paths import display
from controller.plan import cell_json
from controller.sweep import leftovers
from controller.sweep.cell import CellOutcome, CellRunner, CollectLog, record_conditions, record_playbook
from controller.sweep.interrupt import Interrupts
from controller.sweep.leftovers import RunningNote
from controller.sweep.state import CellState, SweepState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.inventory import Target
    from controller.plan import Cell, Plan
    from controller.sweep.ports import LoadGenerator, PreparingRunner, Watcher

JOURNAL = "journal.jsonl"
PLAN = "plan.json"
PROMPTS = "prompts.jsonl"


@dataclass(frozen=True, slots=True)
class SweepEnd:
    """How the sweep ended: the exit code, and sentences for the operator (the last one says what to do)."""

    exit_code: Exit
    sentences: tuple[str, ...] = ()


@dataclass(slots=True)
class Sweep:
    """One run of ``sweep``, new or resumed."""

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
    _log: CollectLog | None = None
    _tainted: bool = False
    _serving: tuple[str, int] | None = None

    def run(self) -> SweepEnd:
        """Run every pending cell, then those that the stop rule and the confirmation add.

        Raises:
            ConfigurationChangedError: a resumed sweep finds another configuration; nothing new was measured with it.
            LockedError: another sweep holds the node; nothing was touched.
            JournalError: a record could not be written; the server was stopped, earlier records are safe.
        """
        lock = NodeLock(node_key(self.target.lock_identity), self.target.title, self.lock_directory)
        lock.acquire(self.plan.sweep_id, self.directory.resolve())
        interrupts = Interrupts(self._last_words, lambda: self.watcher.note("stopping: the server is being shut down"))
        try:
            with interrupts, Journal(self.directory / JOURNAL) as journal:
                self._recover(lock, journal)
                return self._run_cells(journal, interrupts)
        finally:
            self.playbooks.discard()
            if self._tainted:
                lock.abandon()
            else:
                self.note.remove()
                lock.release()

    def _run_cells(self, journal: Journal, interrupts: Interrupts) -> SweepEnd:
        pending = self.state.pending(self.plan)
        reused = len(self.plan.cells) - len(pending)
        self._begin(journal, [cell.cell_id for cell in pending])
        self.watcher.sweep_started(self.plan, pending, reused)
        runner = CellRunner(
            plan=self.plan,
            directory=self.directory,
            variables=self.target.variables,
            playbooks=self.playbooks,
            load=self.load,
            journal=journal,
            watcher=self.watcher,
            interrupts=interrupts,
            configuration=self.state.configuration,
            resumed=bool(self.state.configuration.launches),
            accept_changes=self.accept_changes,
        )
        if not pending:
            pending = self._grow(journal)
        if not pending:
            return self._end(journal, interrupts, [], 0, "")
        self._tainted = True  # from here until the server is stopped, something may run on the target
        total = len(pending)
        try:
            outcomes = self._launch_all(runner, pending, interrupts)
            while _may_go_on(outcomes, interrupts) and (more := self._grow(journal)):
                total += len(more)
                outcomes += self._launch_all(runner, more, interrupts)
            self._serving = runner.serving
        except BaseException:  # a full disk or a fault of ours: the server must not outlive it
            self._stop(None, interrupts)
            raise
        stop_trouble = self._stop(journal, interrupts)
        return self._end(journal, interrupts, outcomes, total, stop_trouble)

    def _grow(self, journal: Journal) -> list[Cell]:
        """Add the launches that are wanted now to the plan and return them."""
        if self.plan.max_blocks <= self.plan.blocks and not self.plan.confirm_blocks:
            return []
        from controller.sweep.growth import wanted  # noqa: PLC0415 - imports scipy, and the reader of this module's files

        self.plan, growth = wanted(self.directory)
        if growth is None:
            return []
        self.watcher.note(growth.sentence)
        if not growth.cells:
            return []
        journal.append("extended", reason=growth.reason, cells=[cell_json(cell) for cell in growth.cells])
        self.plan = self.plan.with_cells(growth.cells)
        return list(growth.cells)

    def _launch_all(self, runner: CellRunner, pending: list[Cell], interrupts: Interrupts) -> list[CellOutcome]:
        outcomes: list[CellOutcome] = []
        for position, cell in enumerate(pending, start=1):
            if interrupts.asked:
                break
            attempt = self.state.cell(cell.cell_id).attempt + 1
            self.note.update(cell=cell.cell_id)
            self.watcher.cell_started(cell, position, len(pending), attempt)
            upcoming = pending[position] if position < len(pending) else None
            outcome = runner.run(
                cell,
                attempt,
                self._log,
                (upcoming, self.state.cell(upcoming.cell_id).attempt + 1) if upcoming else None,
            )
            self._log = outcome.log
            outcomes.append(outcome)
            if outcome.fatal or outcome.state is CellState.ABANDONED:
                break
        return outcomes

    def _begin(self, journal: Journal, pending: list[str]) -> None:
        if self.state.header is None:
            journal.append("sweep", sweep_id=self.plan.sweep_id, plan=self.plan.as_json(), **self.header)
            return
        for cell_id in self.state.unfinished():
            history = self.state.cell(cell_id)
            journal.append(
                "cell", cell=cell_id, attempt=history.attempt, state=CellState.ABANDONED.value, reason="controller died"
            )
        reused = [cell.cell_id for cell in self.plan.cells if cell.cell_id not in pending]
        journal.append("resumed", reused=reused, repeated=pending, **self.header)

    def _recover(self, lock: NodeLock, journal: Journal) -> None:
        """End what a killed controller left, here or in another sweep directory, and fetch the log of its server."""
        found = leftovers.find(self.directory)
        if found:
            self._tainted = True
            self._say_and_finish(found)
        if not self.state.stopped:
            self._tainted = True
            self._log = self._log_of_last_launch()
            self._stop(journal, None)
            self._log = None
        before = lock.predecessor
        if before is None or before.alive or Path(before.directory) == self.directory.resolve():
            return
        other = leftovers.find(Path(before.directory))
        if other is None:
            self.watcher.note(
                f"the server of sweep {before.sweep_id} may still be running; its controller is gone; stopping it"
            )
        else:
            self._say_and_finish(other)
        self._tainted = True
        played = self.playbooks.run("stop", directory=self.directory / "ansible")
        record_playbook(journal, played, "", 0)
        self._tainted = not played.ok
        if played.ok and other is not None:
            RunningNote(other.directory, other.sweep_id).remove()

    def _say_and_finish(self, found: leftovers.Leftover) -> None:
        self.watcher.note(f"{found.sentence}; cleaning it up")
        ended = leftovers.finish(found)
        if ended:
            self.watcher.note(f"ended {len(ended)} Ansible process{'es' if len(ended) > 1 else ''} of it")

    def _log_of_last_launch(self) -> CollectLog | None:
        source = (self.state.last_launch or {}).get("log_file")
        if not source:
            return None
        cell_id = self.state.last_launch_cell
        attempt = self.state.cell(cell_id).attempt
        name = "server.log" if attempt == 1 else f"server-{attempt}.log"
        return CollectLog(str(source), (self.directory / "cells" / cell_id / name).resolve())

    def _stop(self, journal: Journal | None, interrupts: Interrupts | None) -> str:
        """Stop the server and fetch its log; return what went wrong, empty when nothing did."""
        if self.leave_running and interrupts is not None and not interrupts.asked:
            self._tainted = False
            return ""
        collect = self._log.as_extra_vars() if self._log else {}
        played = self.playbooks.run("stop", directory=self.directory / "ansible", extra_vars=collect)
        if played.ok:
            self._tainted = False
        if journal is not None:
            record_playbook(journal, played, "", 0)
            record_conditions(journal, played, [self._serving])
            if played.ok:
                journal.append("stopped")
        return played.sentence

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
            last = self._keep_noise(journal)
        journal.append("end", reason=code.name.lower())
        if last:
            sentences.append(last)
        return SweepEnd(code, tuple(sentences))

    def _keep_noise(self, journal: Journal) -> str:
        """Journal and keep the noise floor of an A/A sweep; return what it is."""
        from controller.sweep import noise  # noqa: PLC0415 - only an A/A sweep needs it
        from controller.sweep.results import read_sweep  # noqa: PLC0415

        found = noise.measure(*read_sweep(self.directory), self.target)
        if found is None:
            return (
                f"no noise floor: that takes {noise.FEWEST_BLOCKS} blocks in which both arms were measured, and a "
                f"difference below {noise.LARGEST:.0%}."
            )
        journal.append("aa_noise", noise=found.noise, blocks=found.blocks, concurrency=list(found.concurrency))
        simulated = " (simulated)" if self.target.simulated else ""
        text = (
            f"the noise floor of {self.target.host} is {found.noise:.2%}{simulated}: two equal arms differ by less in "
            f"{found.blocks} blocks. Later sweeps of this node use it when it is more than their margin."
        )
        try:
            noise.keep(self.target, found)
        except InputError as error:
            return f"{text} But {error.sentence}"
        return text

    def _last_words(self) -> str:
        return (
            f"quit at once: the server of cell {self.note.cell or '(none)'} on {self.target.title} may still run; "
            f"stop it with: python -m controller stop; go on with: "
            f"python -m controller sweep --resume {display(self.directory)}"
        )


def _may_go_on(outcomes: list[CellOutcome], interrupts: Interrupts) -> bool:
    """Return whether more launches make sense: nobody asked to stop, and the target still works."""
    stopped = any(outcome.fatal or outcome.state is CellState.ABANDONED for outcome in outcomes)
    return not interrupts.asked and not stopped
