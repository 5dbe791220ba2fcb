"""The file that ``--speculative-adaptive-config`` takes (SGLang 0.5.13 and later, ``adaptive_spec_params.py``).

{"1": {"candidate_steps": [2, 3]}, "8": {"candidate_steps": [0]}}: from each batch size on, the server chooses among the
candidates by what it sees accepted; 0 drafts nothing, and is a candidate from 0.5.14 on. Earlier releases read a list
for all batch sizes and pass over this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.analysis.result import WITHOUT_FIGURES, Verdict

if TYPE_CHECKING:
    from controller.analysis.result import ArmAnalysis, SweepAnalysis

Config = dict[str, dict[str, list[int]]]


def adaptive_config(analysis: SweepAnalysis) -> Config | None:
    """Return the configuration; None when no concurrency has a static step count with figures that can be used.

    A step count is a candidate where it PAYS; where none does, 0 is the only candidate. The concurrency of the load
    stands for the batch size.
    """
    config = {}
    for level in analysis.levels:
        arms = [arm for arm in level.arms if _usable(arm)]
        if arms and level.baseline is not None:
            config[str(level.concurrency)] = {"candidate_steps": _candidates(arms)}
    return config or None


def adaptive_sentence(analysis: SweepAnalysis | None) -> str:
    """Return what the file is worth, and how it is used."""
    config = adaptive_config(analysis) if analysis else None
    if analysis is None or config is None:
        return "There is no adaptive.json: no static step count gave figures that can be used."
    steps = sorted({step for tier in config.values() for step in tier["candidate_steps"]})
    if steps == [0]:
        return (
            "adaptive.json drafts nothing at every batch size, because no step count was shown to pay. "
            "Leaving --speculative-algorithm out does the same without loading the draft model."
        )
    word = (
        "simulated figures; measure on GPUs before use" if analysis.simulated else "one file per machine and workload"
    )
    least = "0.5.14" if 0 in steps else "0.5.13"
    return (
        "adaptive.json is for --speculative-adaptive --speculative-adaptive-config adaptive.json "
        f"--speculative-num-steps {steps[-1]} --speculative-eagle-topk 1 (SGLang {least} and later; {word})."
    )


def _usable(arm: ArmAnalysis) -> bool:
    """Return whether an arm has a step count of its own and figures that mean something."""
    return arm.steps is not None and not arm.adaptive and not arm.is_baseline and arm.verdict not in WITHOUT_FIGURES


def _candidates(arms: list[ArmAnalysis]) -> list[int]:
    return sorted({arm.steps for arm in arms if arm.verdict is Verdict.PAYS and arm.steps is not None}) or [0]
