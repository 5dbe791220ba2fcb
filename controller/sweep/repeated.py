"""Arms that cannot be launched: what failed twice in the same way is not tried a third time.

A launch of a large model takes ten minutes to fail. When an arm gave no measurement and failed twice in the same class
and phase, while another arm was measured after the first of the two, it is the arm and not the machine; its other cells
are recorded as failed without a launch. A resumed sweep tries them again. A port that is taken or memory that another
process holds says nothing about the arm, however often.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.sweep.failures import CellFailure
from controller.sweep.state import CellState

if TYPE_CHECKING:
    from controller.plan import Cell
    from controller.sweep.outcome import CellOutcome

ENOUGH = 2
NOT_LAUNCHED = "not_launched"
"""Name of the detail in the journal by which such a failure is known."""
OF_THE_MOMENT = frozenset({"gpu-occupied", "host-oom", "load-straggler", "orphan", "port-in-use", "xid"})
"""Classes of failures that somebody else on the machine brings about, so that the next launch may well work."""


@dataclass(slots=True)
class _Failures:
    """Failures of one arm that are alike, in a row."""

    cells: list[str]
    last: CellFailure
    others_measured: bool = False


@dataclass(slots=True)
class RepeatedFailures:
    """What the launches of one run of a sweep on one host came to.

    Attributes:
        measured: Arms that were measured on the host, in earlier runs of the sweep too.
    """

    measured: set[str] = field(default_factory=set)
    _by_arm: dict[str, _Failures] = field(default_factory=dict)

    def learn(self, cell: Cell, outcome: CellOutcome) -> None:
        """Take in how a launch ended."""
        if outcome.state is CellState.DONE:
            self.measured.add(cell.arm)
            for arm, failures in self._by_arm.items():
                failures.others_measured = failures.others_measured or arm != cell.arm
        elif (failure := outcome.failure) and failure.details.get("phase") and failure.kind not in OF_THE_MOMENT:
            known = self._by_arm.get(cell.arm)
            if known is not None and _alike(known.last, failure):
                known.cells.append(cell.cell_id)
                known.last = failure
            else:
                self._by_arm[cell.arm] = _Failures([cell.cell_id], failure)

    def expected(self, arm: str) -> CellFailure | None:
        """Return the failure that a launch of the arm would end in; None when it should be tried."""
        known = self._by_arm.get(arm)
        if known is None or arm in self.measured or not known.others_measured or len(known.cells) < ENOUGH:
            return None
        return CellFailure(
            known.last.kind,
            f"not launched: {arm} failed in the same way in {' and '.join(known.cells)}; "
            "--resume tries it again once the cause is gone",
            {NOT_LAUNCHED: True, "phase": known.last.details["phase"]},
        )


def _alike(one: CellFailure, other: CellFailure) -> bool:
    """Return whether two launches failed in the same way; of an unknown class the line must be the same too."""
    if (one.kind, one.details["phase"]) != (other.kind, other.details["phase"]):
        return False
    return one.kind != "unknown" or one.details.get("cause") == other.details.get("cause")
