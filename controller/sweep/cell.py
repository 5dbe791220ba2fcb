"""One cell: launch the arm, wait until it serves, warm up, measure, journal every step of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.load.redact import redact
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
    from controller.sweep.ports import LoadGenerator, PlaybookRunner, Watcher


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
    playbooks: PlaybookRunner
    load: LoadGenerator
    journal: Journal
    watcher: Watcher
    interrupts: Interrupts
    fingerprints: dict[str, str] = field(default_factory=dict)
    prepared: set[str] = field(default_factory=set)
    """Draft models for which this run has brought the node into the state that the inventory describes."""

    def run(self, cell: Cell, attempt: int, collect: CollectLog | None) -> CellOutcome:
        """Launch and measure one cell; the caller has checked that it is due.

        Raises:
            JournalError: a record cannot be written; the sweep must end.
        """
        started = time.monotonic()
        self._record(cell, attempt, CellState.LAUNCHING)
        outcome = self._launch_and_measure(cell, attempt, collect)
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

    def _launch_and_measure(self, cell: Cell, attempt: int, collect: CollectLog | None) -> CellOutcome:
        folder = self.cell_directory(cell)
        variables = extra_vars(self.plan, cell, attempt, self.variables)
        unprepared = self._prepare(cell, attempt, variables)
        if unprepared:
            return unprepared
        played = self.playbooks.run(
            "restart",
            directory=folder / "ansible",
            extra_vars=variables | (collect.as_extra_vars() if collect else {}),
            on_phase=self.watcher.phase,
            cancelled=lambda: self.interrupts.asked,
        )
        record_playbook(self.journal, played, cell.cell_id, attempt)
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
        changed = self._changed_configuration(cell, launch)
        self.journal.append(
            "server",
            cell=cell.cell_id,
            arm=cell.arm,
            attempt=attempt,
            url=url,
            launch=redact(launch),
            info=redact(server),
            phases=health.get("phases"),
            elapsed_s=health.get("elapsed_s"),
        )
        if changed:
            return CellOutcome(CellState.FAILED, changed, log)
        self._record(cell, attempt, CellState.READY)
        try:
            return self._measure(cell, attempt, url, _time_scale(server), log)
        except StopAskedError:
            return CellOutcome(CellState.ABANDONED, None, log)

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

    def _changed_configuration(self, cell: Cell, launch: Mapping[str, Any]) -> CellFailure | None:
        """Refuse to pool launches of an arm whose command, environment, draft model or NCCL files changed meanwhile."""
        fingerprint = launch.get("fingerprint")
        if not fingerprint:
            return None
        first = self.fingerprints.setdefault(cell.arm, fingerprint)
        if first == fingerprint:
            return None
        return CellFailure(
            "configuration_changed",
            f"arm {cell.arm} was launched with another command, environment, draft model or NCCL file than before "
            "in this sweep; such launches are not pooled. Undo the change and resume, or start a new sweep.",
        )

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


def _time_scale(server: Mapping[str, Any]) -> float:
    """Return the time scale of a simulated server, 1 for a real one."""
    simulated = server.get("simulated")
    return float(simulated.get("time_scale", 1.0)) if isinstance(simulated, Mapping) else 1.0


def _write_requests(path: Path, records: list[RequestRecord]) -> None:
    """Export the requests of a finished cell for other tools; the journal stays the source."""
    path.touch(mode=0o600)
    path.write_text("".join(json.dumps(record.to_json()) + "\n" for record in records), encoding="utf-8")
