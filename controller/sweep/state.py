"""The state of a sweep, folded from its journal. Pure: the same records always give the same state."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.plan import Cell, Plan


class CellState(StrEnum):
    """Where a cell stands."""

    PLANNED = "planned"
    LAUNCHING = "launching"
    READY = "ready"
    MEASURING = "measuring"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"

    @property
    def unfinished(self) -> bool:
        """Whether the controller was still at work on the cell when it last wrote."""
        return self in (CellState.LAUNCHING, CellState.READY, CellState.MEASURING)


@dataclass(slots=True)
class CellHistory:
    """What the journal says about one cell: the latest attempt, and how often it was finished."""

    state: CellState = CellState.PLANNED
    attempt: int = 0
    failure: Mapping[str, Any] | None = None
    launch: Mapping[str, Any] | None = None
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    times_done: int = 0
    seconds: float = 0.0
    server: Mapping[str, Any] | None = None
    url: str | None = None


@dataclass(slots=True)
class SweepState:
    """The fold of a whole journal."""

    header: Mapping[str, Any] | None = None
    cells: dict[str, CellHistory] = field(default_factory=dict)
    ended: str | None = None
    last_launch: Mapping[str, Any] | None = None
    last_launch_cell: str = ""
    stopped: bool = True
    fingerprints: dict[str, str] = field(default_factory=dict)
    reused: set[str] = field(default_factory=set)
    playbook_seconds: list[Mapping[str, Any]] = field(default_factory=list)

    def cell(self, cell_id: str) -> CellHistory:
        """Return the history of a cell, an empty one when the journal does not name it."""
        return self.cells.setdefault(cell_id, CellHistory())

    def pending(self, plan: Plan) -> list[Cell]:
        """Return the cells that must still be launched: everything not done, in the order of the plan."""
        return [cell for cell in plan.cells if self.cell(cell.cell_id).state is not CellState.DONE]

    def unfinished(self) -> list[str]:
        """Return the cells on which a controller died."""
        return [cell_id for cell_id, history in self.cells.items() if history.state.unfinished]


def fold(records: Iterable[Mapping[str, Any]]) -> SweepState:
    """Fold journal records, oldest first. Records of a kind that is not known are skipped."""
    state = SweepState()
    for record in records:
        handler = _HANDLERS.get(str(record.get("kind")))
        if handler:
            handler(state, record)
    return state


def _sweep(state: SweepState, record: Mapping[str, Any]) -> None:
    state.header = state.header or record


def _cell(state: SweepState, record: Mapping[str, Any]) -> None:
    history = state.cell(record["cell"])
    history.state = CellState(record["state"])
    if history.state is CellState.LAUNCHING:
        history.attempt = record["attempt"]
        history.failure, history.launch, history.server, history.requests = None, None, None, []
        state.stopped, state.ended = False, None
    elif history.state is CellState.FAILED:
        history.failure = record.get("failure")
    elif history.state is CellState.DONE:
        history.times_done += 1
        history.seconds = float(record.get("s", 0.0))


def _server(state: SweepState, record: Mapping[str, Any]) -> None:
    history = state.cell(record["cell"])
    history.launch, history.server, history.url = record.get("launch"), record.get("info"), record.get("url")
    state.last_launch, state.last_launch_cell = record.get("launch"), record["cell"]
    fingerprint = (record.get("launch") or {}).get("fingerprint")
    if fingerprint and record.get("arm"):
        state.fingerprints.setdefault(record["arm"], fingerprint)


def _run(state: SweepState, record: Mapping[str, Any]) -> None:
    history = state.cell(record["cell"])
    if record["attempt"] == history.attempt:
        history.requests += record["requests"]


def _resumed(state: SweepState, record: Mapping[str, Any]) -> None:
    state.reused.update(record.get("reused", ()))


def _playbook(state: SweepState, record: Mapping[str, Any]) -> None:
    state.playbook_seconds.append(record)


def _stopped(state: SweepState, _: Mapping[str, Any]) -> None:
    state.stopped = True


def _end(state: SweepState, record: Mapping[str, Any]) -> None:
    state.ended = record.get("reason")


_HANDLERS = {
    "sweep": _sweep,
    "cell": _cell,
    "server": _server,
    "run": _run,
    "resumed": _resumed,
    "playbook": _playbook,
    "stopped": _stopped,
    "end": _end,
}
