"""Which arm to use, and how much stands behind it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from controller.analysis.arm import differences
from controller.analysis.prediction import confirm
from controller.analysis.result import Recommendation, RecommendationStatus, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.analysis.arm import ArmData
    from controller.analysis.result import ArmAnalysis, Confirmation

SETTLED_AGAINST = frozenset({Verdict.HURTS, Verdict.EQUAL})
OPEN = frozenset({Verdict.UNDECIDED, Verdict.UNCONFIRMED})


def recommend(
    arms: Sequence[ArmAnalysis],
    data: Mapping[str, ArmData],
    baseline: ArmData | None,
    *,
    margin: float,
    confidence: float,
) -> Recommendation:
    """Choose among the arms that pay: the best lower bound, ties within the margin going to fewer steps.

    Args:
        arms: The arms of a level with their verdicts.
        data: Their launches by name.
        baseline: The baseline's launches.
        margin: On the log scale.
        confidence: Of the check on fresh launches.
    """
    candidates = [arm for arm in arms if not arm.is_baseline and (arm.steps is not None or arm.adaptive)]
    paying = [arm for arm in candidates if arm.verdict is Verdict.PAYS]
    if baseline is None or not baseline.chosen:
        return Recommendation(RecommendationStatus.NONE, None, None, None, (), None)
    if not paying:
        return _without_winner(candidates, baseline)
    best = max(paying, key=lambda arm: (_low(arm), -_steps(arm)))
    near = [arm for arm in paying if _ln(best) - _ln(arm) <= margin]
    winner = min(near, key=lambda arm: (_steps(arm), -_low(arm)))
    launches = data[winner.arm]
    confirmation = confirm(
        launches.chosen,
        launches.fresh,
        differences(launches.fresh, baseline.fresh, lambda point: point.ln_speed),
        confidence=confidence,
        margin=margin,
    )
    return Recommendation(
        status=_status(confirmation),
        arm=winner.arm,
        steps=winner.steps,
        speedup=winner.speedup,
        tied_with=tuple(arm.arm for arm in near if arm is not winner),
        confirmation=confirmation,
    )


def _without_winner(candidates: Sequence[ArmAnalysis], baseline: ArmData) -> Recommendation:
    """Nothing pays: the baseline stays, settled or until more is known."""
    verdicts = {arm.verdict for arm in candidates}
    if verdicts & OPEN:
        status = RecommendationStatus.UNDECIDED
    elif verdicts & SETTLED_AGAINST:
        status = RecommendationStatus.BASELINE
    else:
        return Recommendation(RecommendationStatus.NONE, None, None, None, (), None)
    return Recommendation(status, baseline.name, None, None, (), None)


def _status(confirmation: Confirmation | None) -> RecommendationStatus:
    """Return the status of a winner."""
    if confirmation is None:
        return RecommendationStatus.UNCONFIRMED
    return RecommendationStatus.CONFIRMED if confirmation.reproduced else RecommendationStatus.NOT_REPRODUCED


def _ln(arm: ArmAnalysis) -> float:
    """Return ln(speed-up)."""
    return math.log(arm.speedup.value) if arm.speedup else -math.inf


def _low(arm: ArmAnalysis) -> float:
    """Return the lower bound of the speed-up."""
    return arm.speedup.low if arm.speedup and arm.speedup.low is not None else -math.inf


def _steps(arm: ArmAnalysis) -> int:
    """Return the steps for ordering; an arm without a number of its own comes last."""
    return arm.steps if arm.steps is not None else 1_000
