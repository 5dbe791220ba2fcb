"""How a sweep over a fleet ended: its exit code, and the sentences for the operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.exits import ControllerError, Exit, InputError, JournalError, LockedError, TargetError
from controller.paths import display
from controller.sweep.ending import SweepEnd

if TYPE_CHECKING:
    from pathlib import Path

    from controller.fleet.schedule import Schedule
    from controller.plan import Plan

ERRORS: dict[Exit, type[ControllerError]] = {
    Exit.USAGE: InputError,
    Exit.TARGET: TargetError,
    Exit.LOCKED: LockedError,
    Exit.JOURNAL: JournalError,
}


@dataclass(slots=True)
class FleetEnding:
    """What is remembered for the end.

    Attributes:
        failed: Cells whose last launch failed.
        lost: {host: reason}.
        not_stopped: {host: why its server could not be stopped}.
        refused: Exit code and sentence of what ends the whole sweep.
        trouble: Why nobody can say which blocks are free.
    """

    failed: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    not_stopped: dict[str, str] = field(default_factory=dict)
    refused: tuple[Exit, str] | None = None
    trouble: str = ""


def raise_refusal(ending: FleetEnding) -> None:
    """Raise what a host refused the sweep with, when one did."""
    if ending.refused is not None:
        code, sentence = ending.refused
        raise ERRORS.get(code, ControllerError)(sentence)


def ended(plan: Plan, directory: Path, schedule: Schedule, ending: FleetEnding, *, interrupted: bool) -> SweepEnd:
    """Return how the sweep ended."""
    again = f"python -m controller sweep --resume {display(directory)}"
    sentences = [f"{host} was lost: {reason}" for host, reason in ending.lost.items()]
    sentences += [
        f"the server on {host} could not be stopped: {trouble}; try: python -m controller stop --limit {host} -i "
        f"{plan.inventory}"
        for host, trouble in ending.not_stopped.items()
    ]
    left = len(schedule.open_blocks)
    elsewhere = sum(block.elsewhere for block in schedule.blocks.values())
    if interrupted:
        return SweepEnd(Exit.INTERRUPTED, (*sentences, f"interrupted with {left} blocks left; go on with: {again}"))
    if left:
        why = ending.trouble or "no host is left"
        return SweepEnd(
            Exit.TARGET,
            (*sentences, f"{why}: {left} blocks are not done; nothing measured was lost, go on with: {again}"),
        )
    if elsewhere:
        sentences.append(
            f"{elsewhere} of {len(schedule.blocks)} blocks are with other controllers; put their directories together "
            f"with: python -m controller report {display(directory)} OTHER… --output TOGETHER"
        )
    if ending.failed:
        sentences.append(f"{len(ending.failed)} cells failed; try only those again with: {again}")
        return SweepEnd(Exit.RUN_FAILED, tuple(sentences))
    return SweepEnd(Exit.TARGET if ending.not_stopped.keys() - ending.lost.keys() else Exit.OK, tuple(sentences))
