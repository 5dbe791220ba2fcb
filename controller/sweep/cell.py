"""One cell: launch the arm, wait until it serves, warm up, measure, journal every step of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.load.redact import redact
from controller.paths import display
from controller.sweep.configuration import Configuration, refuse, sentence
from controller.sweep.effective import another_process, asked_settings, effective_mismatch
from controller.sweep.failures import CellFailure, found_by_module, from_playbook, from_requests
from controller.sweep.interrupt import Interrupts, StopAskedError
from controller.sweep.look import look
from controller.sweep.settings import PREPARING, draft_model, extra_vars
from controller.sweep.state import CellState

if TYPE_CHECKING:
    from pathlib import Path

    from controller.journal import Journal
    from controller.load.records import RequestRecord
    from controller.plan import Cell, Plan
    from controller.playbooks import PlaybookRun
    from controller.sweep.ports import LoadGenerator, PreparingRunner, Watcher


@dataclass(frozen=True, slots=True)
class CollectLog:
    """A server log on the target that is still to be fetched, and where it goes."""

    source: str
    destination: Path

    def as_extra_vars(self) -> dict[str, str]:
        """Return the variables with which restart.yml and stop.yml fetch it."""
        return {"collect_log_src": self.source, "collect_log_dest": str(self.destination)}


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """How a cell ended, and the log that the next playbook should fetch."""

    state: CellState
    failure: CellFailure | None = None
    log: CollectLog | None = None
    fatal: bool = False
    """Going on makes no sense: the target cannot be reached, or Ansible cannot run at all."""


@dataclass(slots=True)
class CellRunner:
    """Does cells one after the other. It keeps what the launches of one arm must have in common."""

    plan: Plan
    directory: Path
    variables: Mapping[str, Any]
    playbooks: PreparingRunner
    load: LoadGenerator
    journal: Journal
    watcher: Watcher
    interrupts: Interrupts
    configuration: Configuration = field(default_factory=Configuration)
    resumed: bool = False
    """Whether launches of an earlier run are in the journal: then a change is refused, not a failed cell."""
    accept_changes: bool = False
    """Take a change of the configuration into the sweep, and say so in the journal."""
    prepared: set[str] = field(default_factory=set)
    """Draft models for which this run has brought the node into the state that the inventory describes."""
    _compared: bool = False
    _serving: tuple[str, int] | None = None
    """Cell and attempt of the launch that serves."""

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
        self._record(cell, attempt, CellState.LAUNCHING)
        outcome = self._launch_and_measure(cell, attempt, collect, upcoming)
        seconds = time.monotonic() - started
        fields: dict[str, Any] = {"s": round(seconds, 3)}
        if outcome.failure:
            fields["failure"] = outcome.failure.as_json()
        self._record(cell, attempt, outcome.state, **fields)
        text = outcome.failure.sentence if outcome.failure else ""
        self.watcher.cell_ended(cell, outcome.state.value, text, seconds)
        return outcome

    def cell_directory(self, cell: Cell) -> Path:
        """Return (and make) the directory of a cell."""
        path = self.directory / "cells" / cell.cell_id
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path

    def _launch_and_measure(
        self, cell: Cell, attempt: int, collect: CollectLog | None, upcoming: tuple[Cell, int] | None
    ) -> CellOutcome:
        folder = self.cell_directory(cell)
        variables = extra_vars(self.plan, cell, attempt, self.variables)
        unprepared = self._prepare(cell, attempt, variables)
        if unprepared:
            return unprepared
        self._compare_node(cell, attempt, variables)
        played = self.playbooks.run(
            "restart",
            directory=folder / "ansible",
            extra_vars=variables | (collect.as_extra_vars() if collect else {}),
            on_phase=self.watcher.phase,
            cancelled=lambda: self.interrupts.asked,
        )
        record_playbook(self.journal, played, cell.cell_id, attempt)
        self._record_conditions(cell, attempt, played)
        health = played.results.get("sglang_health", {})
        log = self._log_of(health, variables, folder, attempt)
        if played.status == "cancelled":
            return CellOutcome(CellState.ABANDONED, None, log)
        if not played.ok or not health.get("ready"):
            failure = from_playbook(played)
            return CellOutcome(CellState.FAILED, failure, log, fatal=failure.fatal)
        url = str(health["url"])
        server = dict(health.get("server") or {})
        launch = dict(health.get("launch") or {})
        launch.pop("environment", None)
        identity = dict(played.results.get("launch_conditions", {}).get("identity") or {})
        changed = self._changed_configuration(cell, attempt, launch, identity)
        self.journal.append(
            "server",
            cell=cell.cell_id,
            arm=cell.arm,
            attempt=attempt,
            url=url,
            launch=redact(launch),
            info=redact(server),
            identity=identity,
            phases=health.get("phases"),
            elapsed_s=health.get("elapsed_s"),
        )
        if changed:
            return CellOutcome(CellState.FAILED, changed, log)
        self._serving = (cell.cell_id, attempt)
        self._record(cell, attempt, CellState.READY)
        return self._measure_checked(cell, attempt, url, _time_scale(server), log, upcoming)

    def _measure_checked(  # noqa: PLR0917 - one launch and the one after it
        self,
        cell: Cell,
        attempt: int,
        url: str,
        time_scale: float,
        log: CollectLog | None,
        upcoming: tuple[Cell, int] | None,
    ) -> CellOutcome:
        """Measure a server that is what was asked for, and see that it is the same one afterwards."""
        said = self.load.server_info(url)
        mismatch = effective_mismatch(
            asked_settings(extra_vars(self.plan, cell, attempt, self.variables), self.variables), said
        )
        if mismatch:
            return CellOutcome(CellState.FAILED, mismatch, log)
        if upcoming:
            self._prepare_restart(*upcoming, log)
        try:
            outcome = self._measure(cell, attempt, url, time_scale, log)
            other = another_process(said, self.load.server_info(url)) if outcome.state is CellState.DONE else None
        except StopAskedError:
            return CellOutcome(CellState.ABANDONED, None, log)
        return CellOutcome(CellState.FAILED, other, log) if other else outcome

    def _prepare_restart(self, cell: Cell, attempt: int, collect: CollectLog | None) -> None:
        """Have Ansible start up for the next launch; one whose draft model is new runs another playbook first."""
        variables = extra_vars(self.plan, cell, attempt, self.variables)
        if draft_model(variables) in self.prepared:
            self.playbooks.prepare(
                "restart",
                directory=self.cell_directory(cell) / "ansible",
                extra_vars=variables | (collect.as_extra_vars() if collect else {}),
            )

    def _prepare(self, cell: Cell, attempt: int, variables: Mapping[str, Any]) -> CellOutcome | None:
        """Check the draft model and set NCCL's variables before its first launch; return an outcome when that fails."""
        key = draft_model(variables)
        if key in self.prepared:
            return None
        played = self.playbooks.run(
            "deploy",
            directory=self.cell_directory(cell) / "ansible",
            extra_vars=variables,
            tags=PREPARING,
            cancelled=lambda: self.interrupts.asked,
        )
        record_playbook(self.journal, played, cell.cell_id, attempt)
        if played.ok:
            self.prepared.add(key)
            return None
        if played.status == "cancelled":
            return CellOutcome(CellState.ABANDONED)
        failure = from_playbook(played)
        return CellOutcome(CellState.FAILED, failure, fatal=failure.fatal)

    def _measure(self, cell: Cell, attempt: int, url: str, time_scale: float, log: CollectLog | None) -> CellOutcome:
        self._record(cell, attempt, CellState.MEASURING)
        records: list[RequestRecord] = []
        for level in self.load.levels:
            runs = [(0, True)] + [(run, False) for run in range(self.load.repeats)]
            for run, warmup in runs:
                name = "warm-up" if warmup else f"run {run + 1} of {self.load.repeats}"
                self.watcher.measuring(f"{name}, concurrency {level}" if len(self.load.levels) > 1 else name)
                with self.interrupts.raising():
                    self.load.flush_cache(url)
                    part = self.load.run(
                        url,
                        run=run,
                        concurrency=level,
                        warmup=warmup,
                        time_scale=time_scale,
                        on_tokens=self.watcher.tokens,
                    )
                if part:
                    self.journal.append(
                        "run",
                        cell=cell.cell_id,
                        attempt=attempt,
                        run=run,
                        warmup=warmup,
                        concurrency=level,
                        requests=[record.to_json() for record in part],
                    )
                records += part
                failure = self._failure_of(cell, attempt, part)
                if failure:
                    return CellOutcome(CellState.FAILED, failure, log)
        _write_requests(self.cell_directory(cell) / "requests.jsonl", records)
        return CellOutcome(CellState.DONE, None, log)

    def _failure_of(self, cell: Cell, attempt: int, records: Sequence[RequestRecord]) -> CellFailure | None:
        """Ask the target why requests failed: a server that died is a failed cell even when some requests completed."""
        if all(record.error is None for record in records):
            return None
        played = look(self.playbooks, self.cell_directory(cell) / "ansible", cancelled=lambda: self.interrupts.asked)
        record_playbook(self.journal, played, cell.cell_id, attempt)
        if not played.ok and found_by_module(played) is not None:
            return from_playbook(played)
        return from_requests(records)

    def _compare_node(self, cell: Cell, attempt: int, variables: Mapping[str, Any]) -> None:
        """Before the first launch of a resumed sweep: refuse a node that is not the one the sweep began on.

        Raises:
            ConfigurationChangedError: it differs, and the operator has not accepted that.
        """
        if self._compared or not self.resumed or not self.configuration.node:
            return
        self._compared = True
        played = self.playbooks.run(
            "identity",
            directory=self.cell_directory(cell) / "ansible",
            extra_vars=variables,
            cancelled=lambda: self.interrupts.asked,
        )
        record_playbook(self.journal, played, cell.cell_id, attempt)
        identity = dict(played.results.get("launch_conditions", {}).get("identity") or {})
        self._accept_or_refuse(cell, attempt, self.configuration.node_differences(identity), None, {}, identity)

    def _accept_or_refuse(  # noqa: PLR0917 - what changed, and what is to be remembered instead
        self,
        cell: Cell,
        attempt: int,
        differences: list[str],
        arm: str | None,
        launch: Mapping[str, Any],
        identity: Mapping[str, str],
    ) -> None:
        if not differences:
            return
        if not self.accept_changes:
            self._record(cell, attempt, CellState.ABANDONED, reason="configuration changed")
            raise refuse(differences, f"python -m controller sweep --resume {display(self.directory)}")
        self.journal.append(
            "accepted", cell=cell.cell_id, arm=arm, differences=differences, launch=redact(launch), identity=identity
        )
        self.configuration.accept(arm, launch, identity)
        self.watcher.note(f"going on although the configuration changed: {sentence(differences)}")
        self._record(cell, attempt, CellState.LAUNCHING)  # this launch belongs to what comes after the change

    def _changed_configuration(
        self, cell: Cell, attempt: int, launch: Mapping[str, Any], identity: Mapping[str, str]
    ) -> CellFailure | None:
        """Refuse to pool launches whose packages, models, GPUs, command or environment changed meanwhile."""
        differences = [
            *self.configuration.node_differences(identity),
            *self.configuration.launch_differences(cell.arm, launch),
        ]
        if differences and self.resumed:
            self._accept_or_refuse(cell, attempt, differences, cell.arm, launch, identity)
            return None
        self.configuration.learn(cell.arm, launch, identity)
        if not differences:
            return None
        return CellFailure(
            "configuration_changed",
            f"the configuration changed while the sweep ran: {sentence(differences)}. Such launches are not pooled; "
            "undo the change and resume, or start a new sweep.",
            {"differences": differences},
        )

    def _record_conditions(self, cell: Cell, attempt: int, played: PlaybookRun) -> None:
        """Journal what the GPUs did during the launch before, and who else uses them between the two."""
        before, self._serving = self._serving, None
        record_conditions(self.journal, played, [before, (cell.cell_id, attempt)])

    @property
    def serving(self) -> tuple[str, int] | None:
        """Cell and attempt of the launch that was left serving."""
        return self._serving

    def _log_of(
        self, health: Mapping[str, Any], variables: Mapping[str, Any], folder: Path, attempt: int
    ) -> CollectLog | None:
        """Return where the log of this launch is: the launch record knows, else what was asked for."""
        launch = health.get("launch") or {}
        source = launch.get("log_file")
        if (
            not source and "sglang_server_log_dir" in self.variables
        ):  # else the template below has no value outside the role
            source = variables.get("sglang_server_log_file")
        name = "server.log" if attempt == 1 else f"server-{attempt}.log"
        return CollectLog(str(source), (folder / name).resolve()) if source else None

    def _record(self, cell: Cell, attempt: int, state: CellState, **fields: object) -> None:
        self.journal.append(
            "cell", cell=cell.cell_id, arm=cell.arm, block=cell.block, attempt=attempt, state=state.value, **fields
        )


def record_playbook(journal: Journal, played: PlaybookRun, cell_id: str, attempt: int) -> None:
    """Journal how a playbook ended and how long each of its tasks took."""
    journal.append(
        "playbook",
        cell=cell_id,
        attempt=attempt,
        playbook=played.playbook,
        status=played.status,
        s=round(played.seconds, 3),
        tasks=[task.as_json() for task in played.tasks],
    )


def record_conditions(journal: Journal, played: PlaybookRun, around: Sequence[tuple[str, int] | None]) -> None:
    """Journal the samples of the launch that ended, and the processes of others seen between launches.

    Args:
        journal: Where to.
        played: A restart or a stop.
        around: Cell and attempt of the launch before and of the one after.
    """
    previous = played.results.get("launch_conditions", {}).get("previous")
    if isinstance(previous, Mapping) and previous.get("launch_id"):
        journal.append("conditions", launch_id=previous["launch_id"], gpu=previous.get("gpu"))
    foreign = played.results.get("gpu_reap", {}).get("foreign") or []
    for place in around:
        if foreign and place is not None:
            journal.append("foreign", cell=place[0], attempt=place[1], processes=redact(foreign))


def _time_scale(server: Mapping[str, Any]) -> float:
    """Return the time scale of a simulated server, 1 for a real one."""
    simulated = server.get("simulated")
    return float(simulated.get("time_scale", 1.0)) if isinstance(simulated, Mapping) else 1.0


def _write_requests(path: Path, records: list[RequestRecord]) -> None:
    """Export the requests of a finished cell for other tools; the journal stays the source."""
    path.touch(mode=0o600)
    path.write_text("".join(json.dumps(record.to_json()) + "\n" for record in records), encoding="utf-8")
