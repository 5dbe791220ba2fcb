"""Everything a report shows, read from a sweep directory and redacted: the only part of the report that reads files."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any

from controller.redaction import redact
from controller.sweep.results import analyse, read_sweep
from controller.sweep.state import CellState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from controller.analysis.result import SweepAnalysis
    from controller.plan import Plan
    from controller.sweep.state import CellHistory


@dataclasses.dataclass(frozen=True, slots=True)
class CellFacts:
    """One cell as the report shows it. Texts are redacted, times are seconds.

    Attributes:
        failure_class: Stable class of the failure; empty when the cell did not fail.
        failure: What the journal says about the failure: sentence, phase, cause, remedy, log_tail.
        phase_seconds: {phase: seconds} of the start, without the time of serving.
        logs: Server logs that are there, relative to the sweep directory, oldest first.
        host: Which host ran the last attempt; empty in journals of earlier versions that did not run it.
        requests: The requests of the last attempt, warm-up included.
    """

    cell_id: str
    block: int
    order: int
    arm: str
    host: str
    state: str
    attempt: int
    reused: bool
    confirmation: bool
    seconds: float
    failure_class: str
    failure: Mapping[str, Any]
    phase_seconds: Mapping[str, float]
    logs: tuple[str, ...]
    command: tuple[str, ...]
    server: Mapping[str, Any]
    requests: Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class SweepFacts:
    """A sweep as the report shows it. ``analysis`` is None when no cell has been measured or has failed yet."""

    plan: Plan
    header: Mapping[str, Any]
    analysis: SweepAnalysis | None
    cells: tuple[CellFacts, ...]
    identity: Mapping[str, Any]
    directory: Path

    @property
    def simulated(self) -> bool:
        """Whether the figures come from a simulated server."""
        return self.plan.simulated or bool(self.analysis and self.analysis.simulated)

    @property
    def failed(self) -> tuple[tuple[CellFacts, ...], ...]:
        """The cells that failed, those with the same sentence together, in the order of the first of each.

        A sentence may name the log of the launch, which differs by the name of the cell and the attempt.
        """
        alike: dict[tuple[str, str], list[CellFacts]] = {}
        for cell in self.cells:
            if cell.failure_class:
                sentence = re.sub(rf"-{re.escape(cell.cell_id)}(-\d+)?\.log", "", str(cell.failure.get("sentence")))
                alike.setdefault((cell.failure_class, sentence), []).append(cell)
        return tuple(map(tuple, alike.values()))


def collect(directory: Path) -> SweepFacts:
    """Read a sweep.

    Raises:
        InputError: the directory holds no sweep.
        JournalError: the journal is damaged.
    """
    plan, state = read_sweep(directory)
    cells = []
    for cell in plan.cells:
        history = state.cell(cell.cell_id)
        failure = redact(dict(history.failure or {})) if history.state is CellState.FAILED else {}
        record = state.servers.get(cell.cell_id, {})
        cells.append(
            CellFacts(
                cell_id=cell.cell_id,
                block=cell.block,
                order=cell.order,
                arm=cell.arm,
                host=history.host,
                state=history.state.value,
                attempt=history.attempt,
                reused=cell.cell_id in state.reused,
                confirmation=cell.confirmation,
                seconds=history.seconds,
                failure_class=str(failure.get("class") or "unknown") if history.state is CellState.FAILED else "",
                failure=failure,
                phase_seconds=phase_seconds(record.get("phases") or ()),
                logs=_logs(directory, cell.cell_id),
                command=_command(history),
                server=redact(dict(history.server or {})),
                requests=history.requests,
            )
        )
    return SweepFacts(
        plan=plan,
        header=redact({key: value for key, value in (state.header or {}).items() if key != "plan"}),
        analysis=analyse(plan, state) if state.has_results else None,
        cells=tuple(cells),
        identity=redact(next((record["identity"] for record in state.servers.values() if record.get("identity")), {})),
        directory=directory,
    )


def phase_seconds(phases: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return how long each phase of a start took; a phase without an end (serving) has no length."""
    found: dict[str, float] = {}
    for phase in phases:
        start, end = phase.get("started_s"), phase.get("ended_s")
        if isinstance(start, int | float) and isinstance(end, int | float) and end >= start:
            name = str(phase.get("name"))
            found[name] = found.get(name, 0.0) + end - start
    return found


def _command(history: CellHistory) -> tuple[str, ...]:
    """Return the command line of the server."""
    argv = (history.launch or {}).get("argv") or ()
    return tuple(map(str, redact(list(argv))))


def _logs(directory: Path, cell_id: str) -> tuple[str, ...]:
    """Return the server logs of a cell, one per attempt."""
    folder = directory / "cells" / cell_id
    found = sorted(folder.glob("server*.log"), key=lambda path: (len(path.name), path.name)) if folder.is_dir() else []
    return tuple(str(path.relative_to(directory)) for path in found)


def as_text(value: object) -> str:
    """Return a value of the journal for a reader: words as they are, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
