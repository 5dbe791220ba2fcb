"""``report --fail-if``: from verdicts to yes or no, for pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.analysis.result import WITHOUT_FIGURES, RecommendationStatus, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from controller.analysis.result import SweepAnalysis

WORDS = {
    "hurts": frozenset({Verdict.HURTS}),
    "equal": frozenset({Verdict.EQUAL}),
    "undecided": frozenset({Verdict.UNDECIDED, Verdict.UNCONFIRMED}),
    "pays": frozenset({Verdict.PAYS}),
}


def gate_objections(
    analysis: SweepAnalysis | None, words: Collection[str], arms: Collection[str] = ()
) -> Iterator[str]:
    """Yield one sentence for each reason why the gate stays shut; none means that it opens.

    Args:
        analysis: None when nothing has been measured, which is an objection.
        words: Keys of ``WORDS``. "undecided" stands for UNCONFIRMED too, and for a winner that fresh launches did not
            reproduce.
        arms: Names of the arms to look at; every arm but the baseline when empty. A name that no concurrency has is an
            objection.
    """
    if analysis is None:
        yield "the gate says no: nothing has been measured."
        return
    # A gate that cannot see does not open: a fault, or an arm without a measurement, fails every gate.
    unwanted = WITHOUT_FIGURES.union(*(WORDS[word] for word in words))
    seen: set[str] = set()
    for level in analysis.levels:
        for arm in level.arms:
            if (arm.arm not in arms) if arms else arm.is_baseline:
                continue
            seen.add(arm.arm)
            choice = level.recommendation
            if arm.verdict in unwanted:
                yield f"the gate says no: {arm.arm} is {arm.verdict} at concurrency {level.concurrency}."
            elif (
                "undecided" in words and choice.arm == arm.arm and choice.status is RecommendationStatus.NOT_REPRODUCED
            ):
                yield (
                    f"the gate says no: {arm.arm} was not reproduced on fresh launches at concurrency "
                    f"{level.concurrency}."
                )
    for name in sorted(set(arms) - seen):
        yield f"the gate says no: there is no arm {name} in this sweep."
    if not arms and not seen:
        yield "the gate says no: there is no arm beside the baseline in this sweep."
