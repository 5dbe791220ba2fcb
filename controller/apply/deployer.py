"""Deploying settings so that at any moment the old or the new server runs, or the history says that neither may.

Written ahead: what was there and what comes is in the history before the inventory is touched. An apply that fails,
misses its canary or is interrupted takes itself back; one that is killed is found by the next command.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.apply.change import Change, End
from controller.apply.errors import RefusedError
from controller.apply.history import Deployment, Destination, History, destination, whoever
from controller.apply.holding import Work, holding
from controller.apply.launching import Launched
from controller.exits import ControllerError, Exit, InputError, JournalError
from controller.process import boot_id, start_ticks
from controller.sweep.interrupt import StopAskedError
from controller.sweep.settings import PREPARING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from controller.apply.host_vars import HostVars
    from controller.apply.ports import DeploymentWatcher, Proof, Prover
    from controller.inventory import Target
    from controller.sweep.leftovers import RunningNote
    from controller.sweep.ports import PlaybookRunner


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
                end = self._take_back(work, held, f"{error}".rstrip("."), touched=work.launches > 0)
                if end.outcome == "failed":
                    self.watcher.note(end.sentences[-1])
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
            prepare = known[-1].outcome not in (None, "failed")
            try:
                return self._roll_back(work, to, known, prepare=prepare)
            except BaseException as error:
                self._try_to_record(work, "failed", reason=f"{error}".rstrip("."))
                raise

    def _apply(self, work: Work, change: Change, held: str | None, prove: Prover) -> End:
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
        work.settle()
        return self._applied(work, proof, figures)

    def _applied(self, work: Work, proof: Proof, figures: Sequence[Mapping[str, Any]]) -> End:
        sentences = (
            *(f"canary at {level.sentence}" for level in proof.levels),
            *(f"note: {text}." for level in proof.levels for text in level.notes),
            *(f"note: {text}." for text in proof.notes),
            f"{self._title} serves on {self.target.title}; take it back with: {self.command}",
        )
        self.watcher.ended("applied", self._title)
        return End(work.number, "applied", Exit.OK, sentences, work.launches, figures, str(self.host_vars.path))

    def _roll_back(self, work: Work, to: Destination, known: Sequence[Deployment], *, prepare: bool) -> End:
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
        for one in known:
            if one.cut_off:
                work.journal.append("rolled_back", number=one.number, reason=f"taken back by deployment {work.number}")
        work.journal.append("applied", number=work.number)
        work.settle()
        self.watcher.ended("applied", self._title)
        sentence = f"{self.target.title} serves with the settings of {to.name}; its health was verified."
        return End(work.number, "applied", Exit.OK, (sentence,), work.launches, (), str(self.host_vars.path))

    def _take_back(
        self,
        work: Work,
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
        except (ControllerError, OSError) as error:
            trouble = str(error).rstrip(".")
        remarks = tuple(f"note: {text}." for text in notes)
        if trouble:
            whole = f"{reason}; and taking it back failed: {trouble}"
            self._try_to_record(work, "failed", reason=whole)
            self.watcher.ended("failed", whole)
            last = f"{self._title} failed and the server may be down: {whole}. When that is put right: {self.command}"
            return End(work.number, "failed", Exit.TARGET, (*remarks, last), work.launches, figures)
        self._try_to_record(work, "rolled_back", reason=reason)
        work.settle()
        self.watcher.ended("rolled back", reason)
        now = "serves again, its health verified" if touched else "was not touched"
        last = f"{self._title} was rolled back: {reason}. On {self.target.title} the server of before {now}."
        return End(work.number, "rolled_back", code, (*remarks, last), work.launches, figures)

    def _try_to_record(self, work: Work, kind: str, **fields: object) -> None:
        try:
            work.journal.append(kind, number=work.number, **fields)
        except JournalError as error:
            self.watcher.note(f"going on without a record: {error.sentence}")

    def _begin(self, work: Work, action: str, change: Change, held: str | None) -> None:
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
            boot_id=boot_id(),
            **change.about,
        )
        work.settled = False
        self._title = self.note.sweep_id = self.history.deployments()[-1].title
        self.watcher.began(self._title)

    def _step(self, work: Work, name: str) -> None:
        work.journal.append("step", number=work.number, step=name)

    def _launch(self, work: Work, playbook: str, *, cancellable: bool = True) -> Launched:
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

    def _prepare(self, work: Work) -> bool:
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

    def _holding(self, what: str) -> AbstractContextManager[Work]:
        return holding(
            self.target,
            self.history,
            self.note,
            what,
            last_words=self._last_words,
            on_asked=lambda: self.watcher.note("stopping: nothing half done will stay"),
            lock_directory=self.lock_directory,
        )

    def _end_what_runs(self, work: Work) -> None:
        if ended := work.end_what_runs():
            self.watcher.note(f"ended {ended} processes of Ansible that a killed controller left behind")

    def _last_words(self) -> str:
        return (
            f"quit at once: {self._title or 'the deployment'} is unfinished on {self.target.title}: the old server may "
            f"run, the new one, or none. Take it back with: {self.command}"
        )
