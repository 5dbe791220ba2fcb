"""When to add launches, and when to stop, without fooling oneself.

Looking at a verdict after every block and stopping at the first that pleases is a test repeated until it errs: at a
true effect on the margin, each look claims falsely with 2.5 %, and ten looks with far more (Armitage, McPherson & Rowe
1969, Journal of the Royal Statistical Society A 132). Two rules keep the error rate of the whole sweep where it is
promised:

* the numbers of blocks at which the verdicts may be looked at are decided in the plan, at most three, none before
  ``--blocks``;
* they share the error rate: with K looks each verdict is given at confidence 1 - (1 - confidence) / K (Bonferroni, so
  it holds whatever the looks have in common). Intervals of the speed-up are shown at that confidence too.

A sweep that may not add blocks has one look and loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.analysis.result import RecommendationStatus, Verdict

if TYPE_CHECKING:
    from controller.analysis.result import SweepAnalysis

UNANSWERABLE = frozenset({"no_baseline", "no_common_block"})
"""Reasons for UNDECIDED that more blocks of the same kind do not take away."""


def planned_looks(blocks: int, max_blocks: int) -> tuple[int, ...]:
    """Return the numbers of blocks at which the verdicts may be looked at: the first, the middle, the last."""
    if max_blocks <= blocks:
        return (blocks,)
    return tuple(sorted({blocks, (blocks + max_blocks + 1) // 2, max_blocks}))


def look_confidence(confidence: float, looks: int) -> float:
    """Return the confidence of each of ``looks`` verdicts so that all together err with at most 1 - confidence."""
    return 1 - (1 - confidence) / looks


def next_look(looks: tuple[int, ...], blocks: int) -> int | None:
    """Return the number of blocks of the look after ``blocks``; None when there is none."""
    return next((look for look in looks if look > blocks), None)


def open_arms(analysis: SweepAnalysis) -> tuple[str, ...]:
    """Return the arms that more blocks may decide, at any concurrency."""
    found: dict[str, None] = {}
    for level in analysis.levels:
        for arm in level.arms:
            if arm.verdict in {Verdict.UNDECIDED, Verdict.UNCONFIRMED} and arm.reason not in UNANSWERABLE:
                found[arm.arm] = None
    return tuple(found)


def unconfirmed_winners(analysis: SweepAnalysis) -> tuple[str, ...]:
    """Return the arms that won at some concurrency and have no fresh launches yet."""
    found: dict[str, None] = {}
    for level in analysis.levels:
        choice = level.recommendation
        if choice.status is RecommendationStatus.UNCONFIRMED and choice.arm is not None:
            found[choice.arm] = None
    return tuple(found)
