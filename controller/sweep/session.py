"""One host for the length of a sweep: locked, cleaned of what a dead controller left, used, stopped, given back."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from controller.exits import TargetError
from controller.lock import NodeLock, node_key
from controller.sweep import leftovers
from controller.sweep.cell import CellRunner
from controller.sweep.entries import record_conditions, record_playbook
from controller.sweep.gate import ConfigurationGate
from controller.sweep.leftovers import RunningNote
from controller.sweep.outcome import CellOutcome, CollectLog, log_copy
from controller.sweep.repeated import RepeatedFailures
from controller.sweep.state import CellState, HostState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controller.inventory import Target
    from controller.journal import Journal
    from controller.plan import Cell, Plan
    from controller.playbooks import PlaybookRun
    from controller.sweep.interrupt import Interrupts
    from controller.sweep.ports import LoadGenerator, PreparingRunner, Watcher


@dataclass(slots=True)
class HostSession:
    """Everything that a sweep does on one host. The caller keeps the order: lock, recover, launch, stop, close.

    Attributes:
        directory: The sweep's.
        workplace: Where the note of a running controller is kept; a host of a fleet has a folder of its own.
        found: What the journal says about the host.
    """

    plan: Plan
    directory: Path
    workplace: Path
    target: Target
    found: HostState
    playbooks: PreparingRunner
    load: LoadGenerator
    watcher: Watcher
    note: RunningNote
    leave_running: bool = False
    accept_changes: bool = False
    lock_directory: Path | None = None
    _log: CollectLog | None = None
    _tainted: bool = False
    _runner: CellRunner | None = None
    _failures: RepeatedFailures = field(init=False)
    _lock: NodeLock = field(init=False)

    def __post_init__(self) -> None:
        self._failures = RepeatedFailures(set(self.found.measured_arms))
        self._lock = NodeLock(node_key(self.target.lock_identity), self.target.title, self.lock_directory)

    def lock(self, patience_s: float = 0.0) -> None:
        """Take the lock of the host.

        Raises:
            LockedError: another sweep holds it; nothing was touched.
        """
        self._lock.acquire(
            self.plan.sweep_id,
            self.directory.resolve(),
            workplace=self.workplace.resolve(),
            patience_s=patience_s,
        )

    def close(self) -> None:
        """Give the lock back; the note of who held it stays when something may still run on the host."""
        self.playbooks.discard()
        if self._tainted:
            self._lock.abandon()
        else:
            self.note.remove()
            self._lock.release()

    def recover(self, journal: Journal) -> None:
        """End what a killed controller left, here or in another sweep directory, and fetch the log of its server."""
        found = leftovers.find(self.workplace)
        if found:
            self._tainted = True
            self._say_and_finish(found)
            self._tainted = False  # a launch is journaled before it is tried: its server is the journal's to tell
        if not self.found.stopped:
            self._tainted = True
            self._log = self._log_of_last_launch()
            self.stop(journal, None)
            self._log = None
        before = self._lock.predecessor
        if before is None or before.place == self.workplace.resolve():
            return
        other = leftovers.left_by(before)
        if other is None:
            whose = "" if before.is_playbook else f" of {before.work} {before.sweep_id}"
            self.watcher.note(f"the server{whose} may still be running; its controller is gone; stopping it")
        else:
            self._say_and_finish(other)
        self._tainted = True
        played = self.playbooks.run("stop", directory=self.workplace / "ansible")
        record_playbook(journal, played, "", 0)
        self._tainted = not played.ok
        if played.ok and other is not None:
            RunningNote(other.directory, other.sweep_id).remove()

    def begin(self, journal: Journal, interrupts: Interrupts) -> None:
        """Make ready to launch. From here until the server is stopped, something may run on the host."""
        self._tainted = True
        self._runner = CellRunner(
            plan=self.plan,
            directory=self.directory,
            variables=self.target.variables,
            playbooks=self.playbooks,
            load=self.load,
            journal=journal,
            watcher=self.watcher,
            interrupts=interrupts,
            gate=ConfigurationGate(
                self.directory,
                journal,
                self.watcher,
                self.found.configuration,
                resumed=bool(self.found.configuration.launches),
                accept_changes=self.accept_changes,
            ),
        )

    def identify(self) -> tuple[CellOutcome | None, dict[str, str]]:
        """Return what the host is made of, once it is prepared for the arm with the most to prepare."""
        assert self._runner is not None  # noqa: S101 - begin() comes first
        speculates = [arm.name for arm in self.plan.arms if arm.settings.get("sglang_server_speculative") is not False]
        cell = next((cell for cell in self.plan.cells if cell.arm in speculates), self.plan.cells[0])
        return self._runner.prepare_and_identify(cell, self.workplace / "ansible")

    def launch(self, cells: Sequence[tuple[Cell, int]], interrupts: Interrupts) -> Iterator[CellOutcome]:
        """Launch cells, each with its attempt, one after the other, until one makes going on senseless.

        A cell of an arm that cannot be launched comes to its outcome without a launch.
        """
        assert self._runner is not None  # noqa: S101 - begin() comes first
        for position, (cell, attempt) in enumerate(cells, start=1):
            if interrupts.asked:
                break
            self.watcher.cell_started(cell, position, len(cells), attempt)
            hopeless = self._failures.expected(cell.arm)
            if hopeless:
                outcome = self._runner.leave_out(cell, attempt, hopeless, self._log)
            else:
                self.note.update(cell=cell.cell_id)
                outcome = self._runner.run(cell, attempt, self._log, self._upcoming(cells[position:]))
                self._failures.learn(cell, outcome)
            self._log = outcome.log
            yield outcome
            if outcome.fatal or outcome.state is CellState.ABANDONED:
                break

    def _upcoming(self, cells: Sequence[tuple[Cell, int]]) -> tuple[Cell, int] | None:
        """Return the next cell that will be launched, as far as can be said now."""
        return next((one for one in cells if self._failures.expected(one[0].arm) is None), None)

    def stop(self, journal: Journal | None, interrupts: Interrupts | None) -> str:
        """Stop the server and fetch its log; return what went wrong, empty when nothing did.

        Without a journal nothing is recorded, as when the journal itself is the trouble. ``interrupts`` is None before
        any launch, where ``leave_running`` does not count.
        """
        if self.leave_running and interrupts is not None and not interrupts.asked:
            self._tainted = False
            return ""
        collect = self._log.as_extra_vars() if self._log else {}
        played = self._play_stop(collect)
        if played.ok:
            self._tainted = False
        if journal is not None:
            record_playbook(journal, played, "", 0)
            record_conditions(journal, played, [self._runner.serving if self._runner else None])
            if played.ok:
                journal.append("stopped")
        return played.sentence

    def _play_stop(self, collect: Mapping[str, str]) -> PlaybookRun:
        """Stop the server even when the sweep directory has no room for what Ansible writes, or for the log."""
        try:
            return self.playbooks.run("stop", directory=self.workplace / "ansible", extra_vars=collect)
        except TargetError as error:
            self.watcher.note(f"{error.sentence.rstrip('.')}; stopping the server without keeping its log")
        with tempfile.TemporaryDirectory(prefix="controller-") as folder:
            return self.playbooks.run("stop", directory=Path(folder))

    def last_words(self) -> str:
        """Return what the operator is told when the controller must leave at once."""
        return f"the server of cell {self.note.cell or '(none)'} on {self.target.title} may still run"

    def _say_and_finish(self, found: leftovers.Leftover) -> None:
        self.watcher.note(f"{found.sentence}; cleaning it up")
        ended = leftovers.finish(found)
        if ended:
            self.watcher.note(f"ended {len(ended)} Ansible process{'es' if len(ended) > 1 else ''} of it")

    def _log_of_last_launch(self) -> CollectLog | None:
        found = self.found
        source = (found.last_launch or {}).get("log_file")
        if not source:
            return None
        return CollectLog(str(source), log_copy(self.directory, found.last_launch_cell, found.last_launch_attempt))
