"""Which launches a sweep adds to its plan: more blocks while a verdict is open, then fresh ones for the winner.

Both are decided from the plan and the journal alone, so a resumed sweep decides the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.analysis.stopping import next_look, open_arms, unconfirmed_winners
from controller.plan import added_blocks
from controller.sweep.results import analyse, read_sweep
from controller.sweep.state import CellState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from controller.plan import Cell, Plan
    from controller.sweep.state import SweepState


@dataclass(frozen=True, slots=True)
class Growth:
    """Launches to add, why (``undecided`` or ``confirmation``), and the sentence for the operator.

    Without cells the sentence says why nothing is added although something would be wanted.
    """

    cells: tuple[Cell, ...]
    reason: str
    sentence: str


def wanted(directory: Path) -> tuple[Plan, Growth | None]:
    """Return the plan as it stands and what is to be added now; None when the sweep is complete."""
    plan, state = read_sweep(directory)
    return plan, next_launches(plan, state)


def next_launches(plan: Plan, state: SweepState) -> Growth | None:
    """Decide what is added after every cell of the plan was launched."""
    if plan.aa or any(cell.confirmation for cell in plan.cells):
        return None
    analysis = analyse(plan, state)
    baseline = analysis.baseline
    if baseline is None:
        return None
    blocks = max(cell.block for cell in plan.cells)
    undecided, look = open_arms(analysis), next_look(plan.looks, blocks)
    if undecided and look is not None:
        cells = added_blocks(plan, _in_order(plan, baseline, undecided), look - blocks)
        text = f"{', '.join(undecided)} undecided after {blocks} blocks"
        growth = _within_budget(plan, state, Growth(cells, "undecided", f"{text}: {look - blocks} more blocks"), text)
        if growth.cells or not (plan.confirm_blocks and unconfirmed_winners(analysis)):
            return growth
    winners = unconfirmed_winners(analysis)
    if not winners or not plan.confirm_blocks:
        return None
    cells = added_blocks(plan, _in_order(plan, baseline, winners), plan.confirm_blocks, confirmation=True)
    text = f"{', '.join(winners)} won"
    fresh = f"{plan.confirm_blocks} fresh block{'s' if plan.confirm_blocks > 1 else ''}"
    return _within_budget(plan, state, Growth(cells, "confirmation", f"{text}: {fresh} with the baseline"), text)


def _in_order(plan: Plan, baseline: str, names: Sequence[str]) -> list[str]:
    """Return the baseline and some arms in the order of the plan."""
    return [arm.name for arm in plan.arms if arm.name == baseline or arm.name in names]


def _within_budget(plan: Plan, state: SweepState, growth: Growth, text: str) -> Growth:
    """Return the growth, or one without cells when it would probably end after the budget."""
    if plan.budget_s is None:
        return growth
    done = [history.seconds for history in state.cells.values() if history.state is CellState.DONE]
    each = sum(done) / len(done) if done else 0.0
    if state.work_s + each * len(growth.cells) <= plan.budget_s:
        return growth
    return Growth(
        (),
        growth.reason,
        f"{text}, but {len(growth.cells)} more launches of about {each:.0f} s do not fit into the budget of "
        f"{plan.budget_s / 3600:.2g} h ({state.work_s / 3600:.2g} h are used)",
    )
