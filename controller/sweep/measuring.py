"""The measurement of a server that serves: warm-up and runs at every concurrency, gated before and after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.sweep.effective import another_process, asked_settings, effective_mismatch
from controller.sweep.entries import record_cell, record_playbook
from controller.sweep.failures import CellFailure, found_by_module, from_playbook, from_requests
from controller.sweep.interrupt import Interrupts, StopAskedError
from controller.sweep.look import look
from controller.sweep.outcome import CellOutcome, CollectLog
from controller.sweep.state import CellState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from controller.journal import Journal
    from controller.load.records import RequestRecord
    from controller.plan import Cell
    from controller.sweep.ports import LoadGenerator, PlaybookRunner, Watcher


@dataclass(frozen=True, slots=True)
class Serving:
    """A launch that serves: which one, where, and what it was launched with."""

    cell: Cell
    attempt: int
    folder: Path
    url: str
    time_scale: float
    variables: Mapping[str, Any]
    log: CollectLog | None


@dataclass(slots=True)
class Measuring:
    """Measures launches of one host, one after the other."""

    inventory: Mapping[str, Any]
    playbooks: PlaybookRunner
    load: LoadGenerator
    journal: Journal
    watcher: Watcher
    interrupts: Interrupts

    def measure(self, serving: Serving, meanwhile: Callable[[], None]) -> CellOutcome:
        """Measure a server that is what was asked for, and see that it is the same one afterwards.

        Args:
            serving: The launch.
            meanwhile: Called once, when it is sure that the measurement begins.
        """
        said = self.load.server_info(serving.url)
        mismatch = effective_mismatch(asked_settings(serving.variables, self.inventory), said)
        if mismatch:
            return CellOutcome(CellState.FAILED, mismatch, serving.log)
        meanwhile()
        try:
            outcome = self._all_runs(serving)
            other = None
            if outcome.state is CellState.DONE:
                other = another_process(said, self.load.server_info(serving.url))
        except StopAskedError:
            return CellOutcome(CellState.ABANDONED, None, serving.log)
        return CellOutcome(CellState.FAILED, other, serving.log) if other else outcome

    def _all_runs(self, serving: Serving) -> CellOutcome:
        record_cell(self.journal, serving.cell, serving.attempt, CellState.MEASURING)
        records: list[RequestRecord] = []
        for level in self.load.levels:
            for run, warmup in [(0, True)] + [(run, False) for run in range(self.load.repeats)]:
                part = self._one_run(serving, level, run, warmup=warmup)
                records += part
                failure = self._failure_of(serving, part)
                if failure:
                    return CellOutcome(CellState.FAILED, failure, serving.log)
        self._export(serving.folder / "requests.jsonl", records)
        return CellOutcome(CellState.DONE, None, serving.log)

    def _one_run(self, serving: Serving, level: int, run: int, *, warmup: bool) -> Sequence[RequestRecord]:
        name = "warm-up" if warmup else f"run {run + 1} of {self.load.repeats}"
        self.watcher.measuring(f"{name}, concurrency {level}" if len(self.load.levels) > 1 else name)
        with self.interrupts.raising():
            self.load.flush_cache(serving.url)
            part = self.load.run(
                serving.url,
                run=run,
                concurrency=level,
                warmup=warmup,
                time_scale=serving.time_scale,
                on_tokens=self.watcher.tokens,
            )
        if part:
            self.journal.append(
                "run",
                cell=serving.cell.cell_id,
                attempt=serving.attempt,
                run=run,
                warmup=warmup,
                concurrency=level,
                requests=[record.to_json() for record in part],
            )
        return part

    def _export(self, path: Path, records: list[RequestRecord]) -> None:
        """Write the requests of a finished cell for other tools; not being able to costs nothing that was measured."""
        try:
            _write_requests(path, records)
        except OSError as error:
            self.watcher.note(f"{path} was not written ({error.strerror}); the journal has the same requests")

    def _failure_of(self, serving: Serving, records: Sequence[RequestRecord]) -> CellFailure | None:
        """Ask the target why requests failed: a server that died is a failed cell even when some requests completed."""
        if all(record.error is None for record in records):
            return None
        played = look(self.playbooks, serving.folder / "ansible", cancelled=lambda: self.interrupts.asked)
        record_playbook(self.journal, played, serving.cell.cell_id, serving.attempt)
        if not played.ok and found_by_module(played) is not None:
            return from_playbook(played)
        return from_requests(records)


def time_scale_of(server: Mapping[str, Any]) -> float:
    """Return the time scale of a simulated server, 1 for a real one."""
    simulated = server.get("simulated")
    return float(simulated.get("time_scale", 1.0)) if isinstance(simulated, Mapping) else 1.0


def _write_requests(path: Path, records: list[RequestRecord]) -> None:
    path.touch(mode=0o600)
    path.write_text("".join(json.dumps(record.to_json()) + "\n" for record in records), encoding="utf-8")
