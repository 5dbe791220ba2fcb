"""What is journaled of playbooks, conditions and cells, in one shape wherever it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from controller.redaction import redact
from controller.sweep.state import CellState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.journal import Journal
    from controller.plan import Cell
    from controller.playbooks import PlaybookRun


def record_cell(journal: Journal, cell: Cell, attempt: int, state: CellState, **fields: object) -> None:
    """Journal that a cell reached a state."""
    journal.append(
        "cell", cell=cell.cell_id, arm=cell.arm, block=cell.block, attempt=attempt, state=state.value, **fields
    )


def record_abandoned(journal: Journal, cell_id: str, attempt: int, reason: str, **fields: object) -> None:
    """Close the launch of a controller or a host that can no longer do so itself."""
    journal.append("cell", cell=cell_id, attempt=attempt, state=CellState.ABANDONED.value, reason=reason, **fields)


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


def identity_of(played: PlaybookRun) -> dict[str, str]:
    """Return what module ``launch_conditions`` found of the node; empty when it did not run."""
    return dict(played.results.get("launch_conditions", {}).get("identity") or {})
