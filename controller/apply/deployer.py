"""Deploying settings so that at any moment the old or the new server runs, or the history says that neither may.

Written ahead: what was there and what comes is in the history before the inventory is touched. An apply that fails,
misses its canary or is interrupted takes itself back; one that is killed is found by the next command.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.apply.errors import RefusedError
from controller.apply.history import Deployment, Destination, History, destination, whoever
from controller.apply.launching import Launched
from controller.exits import Exit, InputError, JournalError
from controller.lock import NodeLock, node_key
from controller.process import start_ticks
from controller.sweep import leftovers
from controller.sweep.interrupt import Interrupts, StopAskedError
from controller.sweep.leftovers import RunningNote
from controller.sweep.settings import PREPARING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from controller.apply.host_vars import HostVars
    from controller.apply.ports import DeploymentWatcher, Proof, Prover
    from controller.inventory import Target
    from controller.journal import Journal
    from controller.lock import Holder
    from controller.sweep.ports import PlaybookRunner


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be deployed.

    Attributes:
        content: What the inventory is to hold.
        settings: Its variables.
        about: Fields of :class:`~controller.apply.history.Deployment` about the sweep.
    """

    content: str | None
    settings: Mapping[str, Any]
    about: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class End:
    """How a deployment ended: its outcome, sentences for the operator, and how often a server was launched."""

    number: int
    outcome: str
    exit_code: Exit
    sentences: tuple[str, ...]
    launches: int
    canary: Sequence[Mapping[str, Any]] = ()
    file: str = ""


@dataclass(slots=True)
class _Work:
    """What the holder of the lock works with."""

    journal: Journal
    interrupts: Interrupts
    number: int = 0
    launches: int = 0
    settled: bool = True
    """Whether the server and the history agree; else the note of the lock stays behind."""
    leftover: leftovers.Leftover | None = None


@dataclass(slots=True)
class Deployer:
    """Applies settings to one target and takes them back.

    Attributes:
        command: How the operator calls ``rollback`` for this target, for sentences.
        effective: Reads the variables of the target anew, as Ansible sees them.
    """

    target: Target
    host_vars: HostVars
    history: History
    playbooks: PlaybookRunner
    watcher: DeploymentWatcher
    note: RunningNote
    effective: Callable[[], Mapping[str, Any]]
    command: str = "python -m controller rollback"
    lock_directory: Path | None = None
    _title: str = field(default="")

    def apply(self, change: Change, prove: Prover) -> End:
        """Write the settings, launch, prove; take everything back when that does not end well.

        Raises:
            RefusedError: an earlier deployment was cut off and must be taken back first.
            InputError: the settings cannot be written, or would not win in this inventory; nothing changed.
            LockedError: a sweep or another deployment holds the node.
            JournalError: the history cannot be written; what was begun was taken back.
        """
        with self._holding(str(change.about.get("arm", ""))) as work:
            self.refuse_on_top_of_another()
            self._end_what_runs(work)
            held = self.host_vars.read()
            self._begin(work, "apply", change, held)
            try:
                return self._apply(work, change, held, prove)
            except StopAskedError:
                return self._take_back(work, held, "it was interrupted", touched=True, code=Exit.INTERRUPTED)
            except BaseException as error:  # a full disk, bad input, a fault of ours: nothing half done may stay
                self._take_back(work, held, f"{error}".rstrip("."), touched=work.launches > 0)
                raise

    def refuse_on_top_of_another(self) -> None:
        """Say what an unfinished deployment needs first.

        Raises:
            RefusedError: there is one.
        """
        if before := self.history.cut_off():
            raise RefusedError(f"{before.cut_off_sentence}: {self.command}")

    def rollback(self, word: str) -> End:
        """Bring earlier settings back and restart the server with them; no canary, but its health is verified.

        Raises:
            InputError: there are no such settings.
            LockedError: a sweep or another deployment holds the node.
            JournalError: the history cannot be written.
        """
        with self._holding("rollback") as work:
            known = self.history.deployments()
            to = destination(known, word)
            self._end_what_runs(work)
            change = Change(to.content, to.settings, {"destination": to.name, "simulated": self.target.simulated})
            self._begin(work, "rollback", change, self.host_vars.read())
            # What served until a moment ago is prepared, and when no server may run, every second counts.
            return self._roll_back(work, to, known, prepare=known[-1].outcome not in (None, "failed"))

    def _apply(self, work: _Work, change: Change, held: str | None, prove: Prover) -> End:
        self.watcher.step(f"writing {len(change.settings)} variables to {self.host_vars.path}")
        self.host_vars.write(change.content)
        self._step(work, "written")
        self._refuse_what_does_not_win(change.settings)
        if work.interrupts.asked:
            return self._take_back(work, held, "it was interrupted", touched=False, code=Exit.INTERRUPTED)
        launched = self._launch(work, "deploy")
        if launched.trouble:
            code = Exit.INTERRUPTED if launched.cancelled else Exit.RUN_FAILED
            reason = "it was interrupted" if launched.cancelled else f"the server did not come up: {launched.trouble}"
            if launched.unreachable:
                code, reason = Exit.TARGET, launched.trouble
            return self._take_back(work, held, reason, touched=launched.touched, code=code)
        self._step(work, "serving")
        with work.interrupts.raising():
            proof = prove(launched.health, self.watcher)
        figures = [level.as_json() for level in proof.levels]
        work.journal.append("canary", number=work.number, levels=figures, notes=list(proof.notes))
        if proof.objections:
            reason = "; ".join(proof.objections)
            return self._take_back(work, held, reason, touched=True, figures=figures, notes=proof.notes)
        work.journal.append("applied", number=work.number)
        self._settle(work)
        return self._applied(work, proof, figures)

    def _applied(self, work: _Work, proof: Proof, figures: Sequence[Mapping[str, Any]]) -> End:
        sentences = (
            *(f"canary at {level.sentence}" for level in proof.levels),
            *(f"note: {text}." for level in proof.levels for text in level.notes),
            *(f"note: {text}." for text in proof.notes),
            f"{self._title} serves on {self.target.title}; take it back with: {self.command}",
        )
        self.watcher.ended("applied", self._title)
        return End(work.number, "applied", Exit.OK, sentences, work.launches, figures, str(self.host_vars.path))

    def _roll_back(self, work: _Work, to: Destination, known: Sequence[Deployment], *, prepare: bool) -> End:
        self.watcher.step(f"writing what {self.host_vars.path} held: {to.name}")
        self.host_vars.write(to.content)
        self._step(work, "written")
        cancelled = prepare and self._prepare(work)
        launched = Launched({}, "it was interrupted", touched=False, cancelled=True) if cancelled else None
        launched = launched or self._launch(work, "restart")
        if launched.cancelled:
            sentence = f"{self._title} was interrupted and is unfinished: the server may not run. Finish it with"
            return End(work.number, "unfinished", Exit.INTERRUPTED, (f"{sentence}: {self.command}",), work.launches)
        if launched.trouble:
            work.journal.append("failed", number=work.number, reason=launched.trouble)
            self.watcher.ended("failed", launched.trouble)
            sentence = f"the settings are back ({to.name}), but no healthy server runs on {self.target.title}"
            return End(work.number, "failed", Exit.TARGET, (f"{sentence}: {launched.trouble}.",), work.launches)
        for one in (one for one in known if one.cut_off):
            work.journal.append("rolled_back", number=one.number, reason=f"taken back by deployment {work.number}")
        work.journal.append("applied", number=work.number)
        self._settle(work)
        self.watcher.ended("applied", self._title)
        sentence = f"{self.target.title} serves with the settings of {to.name}; its health was verified."
        return End(work.number, "applied", Exit.OK, (sentence,), work.launches, (), str(self.host_vars.path))

    def _take_back(
        self,
        work: _Work,
        held: str | None,
        reason: str,
        *,
        touched: bool,
        code: Exit = Exit.RUN_FAILED,
        figures: Sequence[Mapping[str, Any]] = (),
        notes: Sequence[str] = (),
    ) -> End:
        """Restore the inventory and, where the server was touched, restart it; a broken history does not stop that."""
        self.watcher.note(f"taking it back: {reason}")
        self._try_to_record(work, "step", step="rolling_back", reason=reason)
        trouble = ""
        try:
            self.host_vars.write(held)
            if touched:
                trouble = self._launch(work, "restart", cancellable=False).trouble
        except (InputError, OSError) as error:
            trouble = str(error).rstrip(".")
        remarks = tuple(f"note: {text}." for text in notes)
        if trouble:
            whole = f"{reason}; and taking it back failed: {trouble}"
            self._try_to_record(work, "failed", reason=whole)
            self.watcher.ended("failed", whole)
            last = f"{self._title} failed and the server may be down: {whole}. When that is put right: {self.command}"
            return End(work.number, "failed", Exit.TARGET, (*remarks, last), work.launches, figures)
        self._try_to_record(work, "rolled_back", reason=reason)
        self._settle(work)
        self.watcher.ended("rolled back", reason)
        now = "serves again, its health verified" if touched else "was not touched"
        last = f"{self._title} was rolled back: {reason}. On {self.target.title} the server of before {now}."
        return End(work.number, "rolled_back", code, (*remarks, last), work.launches, figures)

    def _try_to_record(self, work: _Work, kind: str, **fields: object) -> None:
        try:
            work.journal.append(kind, number=work.number, **fields)
        except JournalError as error:
            self.watcher.note(f"going on without a record: {error.sentence}")

    def _begin(self, work: _Work, action: str, change: Change, held: str | None) -> None:
        known = self.history.deployments()
        work.number = known[-1].number + 1 if known else 1
        work.journal.append(
            "applying",
            number=work.number,
            action=action,
            who=whoever(),
            target=self.target.host,
            inventory=str(self.target.inventory),
            before=held,
            after=change.content,
            settings=dict(change.settings),
            file=str(self.host_vars.path),
            pid=os.getpid(),
            start_ticks=start_ticks(os.getpid()),
            **change.about,
        )
        work.settled = False
        self._title = self.note.sweep_id = self.history.deployments()[-1].title
        self.watcher.began(self._title)

    def _step(self, work: _Work, name: str) -> None:
        work.journal.append("step", number=work.number, step=name)

    def _settle(self, work: _Work) -> None:
        """Nothing is half done any more, neither of this deployment nor of what was cut off before it."""
        work.settled = True
        if work.leftover is not None and work.launches:
            RunningNote(work.leftover.directory, work.leftover.sweep_id).remove()

    def _launch(self, work: _Work, playbook: str, *, cancellable: bool = True) -> Launched:
        if cancellable:  # taking back has a step of its own
            self._step(work, "launching")
        self.watcher.step(f"running playbooks/{playbook}.yml")
        work.launches += 1
        played = self.playbooks.run(
            playbook,
            directory=self.history.folder(work.number),
            on_phase=self.watcher.phase,
            cancelled=lambda: cancellable and work.interrupts.asked,
        )
        launched = Launched.from_run(played)
        if not launched.touched:
            work.launches -= 1
        return launched

    def _prepare(self, work: _Work) -> bool:
        """Prepare draft model and NCCL for settings of an earlier day; return whether that was interrupted."""
        self.watcher.step("preparing draft model and NCCL")
        played = self.playbooks.run(
            "deploy",
            directory=self.history.folder(work.number),
            tags=PREPARING,
            cancelled=lambda: work.interrupts.asked,
        )
        if not played.ok and played.status != "cancelled":
            self.watcher.note(f"going on although the preparation failed: {played.sentence}")
        return played.status == "cancelled"

    def _refuse_what_does_not_win(self, settings: Mapping[str, Any]) -> None:
        """Ask Ansible whether the variables have the values that were written.

        Raises:
            InputError: something else in the inventory wins.
        """
        seen = self.effective()
        wrong = [name for name, value in settings.items() if seen.get(name) != value]
        if wrong:
            raise InputError(
                f"{', '.join(wrong)}: another source of {self.target.inventory} wins over {self.host_vars.path} "
                f"(found: {', '.join(str(seen.get(name)) for name in wrong)}); take it out there and apply again."
            )

    def _end_what_runs(self, work: _Work) -> None:
        """End the Ansible that a killed sweep or deployment left, before anything else touches the node."""
        if work.leftover is None:
            return
        ended = leftovers.finish(work.leftover)
        if ended:
            self.watcher.note(f"ended {len(ended)} processes of Ansible that a killed controller left behind")

    @contextmanager
    def _holding(self, what: str) -> Iterator[_Work]:
        """Hold the node, the history and the signals."""
        lock = NodeLock(node_key(self.target.lock_identity), self.target.title, self.lock_directory)
        lock.acquire(what, self.history.directory, work="deployment")
        before = lock.predecessor
        work: _Work | None = None
        try:
            with (
                self.history.open() as journal,
                Interrupts(
                    self._last_words, lambda: self.watcher.note("stopping: nothing half done will stay")
                ) as asked,
            ):
                work = _Work(journal, asked, leftover=_leftover_of(before))
                yield work
        finally:
            self._let_go(lock, before, work)

    def _let_go(self, lock: NodeLock, before: Holder | None, work: _Work | None) -> None:
        if work is not None and not work.settled:
            lock.abandon()
            return
        launched = work is not None and work.launches > 0
        if launched or before is None or before.alive:
            self.note.remove()
            lock.release()
        else:
            lock.restore(before)

    def _last_words(self) -> str:
        return (
            f"quit at once: {self._title or 'the deployment'} is unfinished on {self.target.title}: the old server may "
            f"run, the new one, or none. Take it back with: {self.command}"
        )


def _leftover_of(before: Holder | None) -> leftovers.Leftover | None:
    return leftovers.find(before.place) if before is not None and not before.alive else None
