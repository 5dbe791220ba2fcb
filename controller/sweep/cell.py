"""One cell: launch the arm, wait until it serves, warm up, measure, journal every step of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from controller.paths import make_private
from controller.redaction import redact
from controller.sweep.entries import identity_of, record_cell, record_conditions, record_playbook
from controller.sweep.failures import CellFailure, from_playbook
from controller.sweep.measuring import Measuring, Serving, time_scale_of
from controller.sweep.outcome import CellOutcome, CollectLog, log_copy
from controller.sweep.settings import PREPARING, draft_model, extra_vars
from controller.sweep.state import CellState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from controller.journal import Journal
    from controller.plan import Cell, Plan
    from controller.playbooks import PlaybookRun
    from controller.sweep.gate import ConfigurationGate
    from controller.sweep.interrupt import Interrupts
    from controller.sweep.ports import LoadGenerator, PreparingRunner, Watcher


@dataclass(slots=True)
class CellRunner:
    """Does cells of one host one after the other."""

    plan: Plan
    directory: Path
    variables: Mapping[str, Any]
    playbooks: PreparingRunner
    load: LoadGenerator
    journal: Journal
    watcher: Watcher
    interrupts: Interrupts
    gate: ConfigurationGate
    """Keeps what the launches of one arm must have in common."""
    prepared: set[str] = field(default_factory=set)
    """Draft models for which this run has brought the node into the state that the inventory describes."""
    _measuring: Measuring = field(init=False)
    _serving: tuple[str, int] | None = None
    """Cell and attempt of the launch that serves."""

    def __post_init__(self) -> None:
        self._measuring = Measuring(
            self.variables, self.playbooks, self.load, self.journal, self.watcher, self.interrupts
        )

    @property
    def serving(self) -> tuple[str, int] | None:
        """Cell and attempt of the launch that serves, or served last."""
        return self._serving

    def run(
        self, cell: Cell, attempt: int, collect: CollectLog | None, upcoming: tuple[Cell, int] | None = None
    ) -> CellOutcome:
        """Launch and measure one cell; the caller has checked that it is due.

        ``upcoming`` is the cell after it with its attempt: its restart is prepared while this one is measured.

        Raises:
            JournalError: a record cannot be written; the sweep must end.
            ConfigurationChangedError: the configuration is not the one that the resumed sweep began with.
        """
        started = time.monotonic()
        record_cell(self.journal, cell, attempt, CellState.LAUNCHING)
        outcome = self._launch_and_measure(cell, attempt, collect, upcoming)
        seconds = time.monotonic() - started
        fields: dict[str, Any] = {"s": round(seconds, 3)}
        if outcome.failure:
            fields["failure"] = outcome.failure.as_json()
        record_cell(self.journal, cell, attempt, outcome.state, **fields)
        text = outcome.failure.sentence if outcome.failure else ""
        self.watcher.cell_ended(cell, outcome.state.value, text, seconds)
        return outcome

    def leave_out(self, cell: Cell, attempt: int, failure: CellFailure, collect: CollectLog | None) -> CellOutcome:
        """Record a cell as failed without a launch; the log of the server before it is still to be fetched.

        Raises:
            JournalError: a record cannot be written; the sweep must end.
        """
        record_cell(self.journal, cell, attempt, CellState.FAILED, s=0.0, failure=failure.as_json())
        self.watcher.cell_ended(cell, CellState.FAILED.value, failure.sentence, 0.0)
        return CellOutcome(CellState.FAILED, failure, collect)

    def prepare_and_identify(self, cell: Cell, folder: Path) -> tuple[CellOutcome | None, dict[str, str]]:
        """Before any launch: bring the node into the state that a cell needs, and return what it is made of then.

        Args:
            cell: Whose draft model is prepared.
            folder: For Ansible's output, which belongs to no cell.

        Returns:
            How that failed, None when it did not; and the identity, empty when nobody could say.
        """
        variables = extra_vars(self.plan, cell, 0, self.variables)
        unprepared = self._prepare(cell, 0, variables, directory=folder)
        if unprepared and (unprepared.fatal or unprepared.state is CellState.ABANDONED):
            return unprepared, {}
        played = self._play("identity", cell, 0, variables, directory=folder)
        if played.ok:
            return None, identity_of(played)
        failure = from_playbook(played)
        return CellOutcome(CellState.FAILED, failure, fatal=True), {}

    def cell_directory(self, cell: Cell) -> Path:
        """Return (and make) the directory of a cell."""
        path = self.directory / "cells" / cell.cell_id
        make_private(path)
        return path

    def _launch_and_measure(
        self, cell: Cell, attempt: int, collect: CollectLog | None, upcoming: tuple[Cell, int] | None
    ) -> CellOutcome:
        variables = extra_vars(self.plan, cell, attempt, self.variables)
        unprepared = self._prepare(cell, attempt, variables)
        if unprepared:
            return replace(unprepared, log=collect)  # the server before it still runs, its log is still to be fetched
        if self.gate.wants_node:
            played = self._play("identity", cell, attempt, variables)
            self.gate.compare_node(cell, attempt, identity_of(played))
        played = self._play(
            "restart",
            cell,
            attempt,
            variables | (collect.as_extra_vars() if collect else {}),
            on_phase=self.watcher.phase,
        )
        before, self._serving = self._serving, None
        record_conditions(self.journal, played, [before, (cell.cell_id, attempt)])
        health = played.results.get("sglang_health", {})
        log = self._log_of(health, variables, cell, attempt)
        if played.status == "cancelled":
            return CellOutcome(CellState.ABANDONED, None, log)
        if not played.ok or not health.get("ready"):
            failure = from_playbook(played)
            return CellOutcome(CellState.FAILED, failure, log, fatal=failure.fatal)
        changed = self._record_server(cell, attempt, played)
        if changed:
            return CellOutcome(CellState.FAILED, changed, log)
        self._serving = (cell.cell_id, attempt)
        record_cell(self.journal, cell, attempt, CellState.READY)
        scale = time_scale_of(dict(health.get("server") or {}))
        serving = Serving(cell, attempt, self.cell_directory(cell), str(health["url"]), scale, variables, log)
        return self._measuring.measure(serving, lambda: self._prepare_restart(upcoming, log))

    def _play(self, playbook: str, cell: Cell, attempt: int, variables: Mapping[str, Any], **more: Any) -> PlaybookRun:  # noqa: ANN401 - handed on
        """Run a playbook for a cell and journal how it went."""
        more.setdefault("directory", self.cell_directory(cell) / "ansible")
        played = self.playbooks.run(playbook, extra_vars=variables, cancelled=lambda: self.interrupts.asked, **more)
        record_playbook(self.journal, played, cell.cell_id, attempt)
        return played

    def _prepare(self, cell: Cell, attempt: int, variables: Mapping[str, Any], **more: Path) -> CellOutcome | None:
        """Check the draft model and set NCCL's variables before its first launch; return an outcome when that fails."""
        key = draft_model(variables)
        if key in self.prepared:
            return None
        played = self._play("deploy", cell, attempt, variables, tags=PREPARING, **more)
        if played.ok:
            self.prepared.add(key)
            return None
        if played.status == "cancelled":
            return CellOutcome(CellState.ABANDONED)
        failure = from_playbook(played)
        return CellOutcome(CellState.FAILED, failure, fatal=failure.fatal)

    def _prepare_restart(self, upcoming: tuple[Cell, int] | None, collect: CollectLog | None) -> None:
        """Have Ansible start up for the next launch; one whose draft model is new runs another playbook first."""
        if upcoming is None:
            return
        cell, attempt = upcoming
        variables = extra_vars(self.plan, cell, attempt, self.variables)
        if draft_model(variables) in self.prepared:
            self.playbooks.prepare(
                "restart",
                directory=self.cell_directory(cell) / "ansible",
                extra_vars=variables | (collect.as_extra_vars() if collect else {}),
            )

    def _record_server(self, cell: Cell, attempt: int, played: PlaybookRun) -> CellFailure | None:
        """Journal what came up; return the failure when it is not what the launches before it were."""
        health = played.results["sglang_health"]
        launch = dict(health.get("launch") or {})
        launch.pop("environment", None)
        identity = identity_of(played)
        changed = self.gate.compare_launch(cell, attempt, launch, identity)
        self.journal.append(
            "server",
            cell=cell.cell_id,
            arm=cell.arm,
            attempt=attempt,
            url=str(health["url"]),
            launch=redact(launch),
            info=redact(dict(health.get("server") or {})),
            identity=identity,
            phases=health.get("phases"),
            elapsed_s=health.get("elapsed_s"),
        )
        return changed

    def _log_of(
        self, health: Mapping[str, Any], variables: Mapping[str, Any], cell: Cell, attempt: int
    ) -> CollectLog | None:
        """Return where the log of this launch is: the launch record knows, else what was asked for."""
        source = (health.get("launch") or {}).get("log_file")
        # What was asked for is a template that has no value outside the role unless the inventory sets the directory.
        if not source and "sglang_server_log_dir" in self.variables:
            source = variables.get("sglang_server_log_file")
        return CollectLog(str(source), log_copy(self.directory, cell.cell_id, attempt)) if source else None
