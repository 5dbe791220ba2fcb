"""Whether an arm gives the same answers as the baseline, as often as the baseline gives them itself.

Greedy decoding with speculation should give the target's own tokens. Rounding differs between batch shapes, so equal
answers cannot be demanded; the baseline, compared with itself across launches, says how often they are equal anyway.

For every prompt, w is the share of pairs of baseline launches with the same answer, and b the share of pairs of a
launch of the arm and one of the baseline. Prompts are independent, pairs are not, so the prompt is the unit: an exact
sign-flip test on w - b over prompts (Fisher 1935, as in ``paired``), one-sided. Six prompts that always differ give
p = 0.016.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from controller.analysis.paired import sign_flip_p
from controller.analysis.result import OutputAgreement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controller.analysis.points import Point

DIFFER_P = 0.05


def output_agreement(arm: Sequence[Point], baseline: Sequence[Point]) -> OutputAgreement | None:
    """Return how often answers agree; None without two baseline launches, or without a prompt that both answered."""
    ours, theirs = _answers(arm), _answers(baseline)
    within: list[float] = []
    between: list[float] = []
    for prompt in sorted(ours.keys() & theirs.keys()):
        reference = theirs[prompt]
        if len(reference) < 2:
            continue
        within.append(_share(itertools.combinations(reference, 2)))
        between.append(_share(itertools.product(ours[prompt], reference)))
    if not within:
        return None
    gaps = [own - other for own, other in zip(within, between, strict=True)]
    worse = math.fsum(gaps) > 0
    p_value = sign_flip_p(gaps) / 2 if worse else 1.0
    return OutputAgreement(
        prompts=len(within),
        with_baseline=math.fsum(between) / len(between),
        within_baseline=math.fsum(within) / len(within),
        p_value=p_value,
        differs=worse and p_value <= DIFFER_P,
    )


def _answers(points: Iterable[Point]) -> dict[int, list[str]]:
    """Return the hashes of the answers to each prompt, one a launch."""
    found: dict[int, list[str]] = {}
    for point in points:
        for run in point.runs:
            for prompt, answer in run.answers:
                found.setdefault(prompt, []).append(answer)
    return found


def _share(pairs: Iterable[tuple[str, str]]) -> float:
    same = [first == second for first, second in pairs]
    return sum(same) / len(same)
