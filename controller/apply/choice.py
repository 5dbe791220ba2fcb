"""Which arm of a sweep to deploy, and what speaks against it. Pure: an analysis in, a choice out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.analysis.result import RecommendationStatus, Verdict
from controller.report.flag_words import flag_sentence
from controller.report.sentences import recommendation_sentence, verdict_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.analysis.result import ArmAnalysis, LevelAnalysis, SweepAnalysis


@dataclass(frozen=True, slots=True)
class Choice:
    """What to deploy.

    Attributes:
        arm: Name of the arm; None when the sweep names none.
        verdict: The sweep's words about it, for the record.
        objections: Sentences that speak against it; none when the sweep stands behind it.
        no_change: The sentence that says why nothing needs to change; empty when there is something to deploy.
    """

    arm: str | None
    verdict: str
    objections: tuple[str, ...] = ()
    no_change: str = ""


def choose(analysis: SweepAnalysis, asked: str | None) -> Choice:
    """Return the arm that was asked for, else the one that the sweep recommends at every concurrency.

    The baseline may always be asked for: to serve without speculation needs no proof that it pays.
    """
    if asked is not None:
        return _checked(analysis, asked)
    winners = {level.recommendation.arm for level in analysis.levels if _has_winner(level)}
    if len(winners) == 1 and all(_has_winner(level) for level in analysis.levels):
        return _checked(analysis, str(next(iter(winners))))
    sentences = tuple(_placed(analysis, level, recommendation_sentence(level)) for level in analysis.levels)
    if all(level.recommendation.status is RecommendationStatus.BASELINE for level in analysis.levels):
        details = tuple(
            _placed(analysis, level, verdict_sentence(arm, analysis.margin))
            for level in analysis.levels
            for arm in level.arms
            if arm.verdict is not None
        )
        if all(any(arm.verdict is Verdict.EQUAL for arm in level.arms) for level in analysis.levels):
            return Choice(None, Verdict.EQUAL, no_change=" ".join((*sentences, *details)))
        return Choice(None, Verdict.HURTS, (*sentences, *details))
    if len(winners) > 1 or (winners and len(analysis.levels) > 1):
        sentences = (*sentences, "The concurrencies do not agree on one arm.")
    return Choice(None, ", ".join(dict.fromkeys(level.recommendation.status for level in analysis.levels)), sentences)


def _has_winner(level: LevelAnalysis) -> bool:
    return level.recommendation.status in (
        RecommendationStatus.CONFIRMED,
        RecommendationStatus.UNCONFIRMED,
        RecommendationStatus.NOT_REPRODUCED,
    )


def _checked(analysis: SweepAnalysis, name: str) -> Choice:
    """Return the arm with everything that speaks against it, concurrency by concurrency."""
    objections: list[str] = []
    words: list[str] = []
    for level in analysis.levels:
        arm = next((one for one in level.arms if one.arm == name), None)
        if arm is None or not arm.points:
            words.append(Verdict.FAILED)
            objections.append(_placed(analysis, level, f"{name} was not measured."))
            continue
        word = "baseline" if arm.is_baseline else f"{arm.verdict}"
        status = level.recommendation.status
        if level.recommendation.arm == name and not arm.is_baseline:
            word += f", {status}"
        words.append(word)
        objections += [_placed(analysis, level, text) for text in _objections(analysis, level, arm)]
    faults = [flag_sentence(flag) for flag in analysis.faults if flag.arm in (None, name)]
    return Choice(name, "; ".join(dict.fromkeys(words)), (*faults, *objections))


def _objections(analysis: SweepAnalysis, level: LevelAnalysis, arm: ArmAnalysis) -> Iterator[str]:
    choice = level.recommendation
    if arm.is_baseline:
        return
    if arm.verdict is not Verdict.PAYS:
        yield verdict_sentence(arm, analysis.margin)
    elif choice.arm != arm.arm:
        other = f"{choice.arm}, and only that was checked on fresh launches" if choice.arm else "no arm"
        yield f"{verdict_sentence(arm, analysis.margin)} But the sweep recommends {other}."
    elif choice.status is not RecommendationStatus.CONFIRMED:
        yield recommendation_sentence(level)
    if arm.outputs is not None and arm.outputs.differs:
        yield (
            f"The answers of {arm.arm} at temperature 0 are the baseline's in {arm.outputs.with_baseline:.0%} of the "
            f"pairs, the baseline's own in {arm.outputs.within_baseline:.0%} (p = {arm.outputs.p_value:.3f})."
        )


def _placed(analysis: SweepAnalysis, level: LevelAnalysis, sentence: str) -> str:
    """Say at which concurrency, where there are several."""
    return f"Concurrency {level.concurrency}: {sentence}" if len(analysis.levels) > 1 else sentence
