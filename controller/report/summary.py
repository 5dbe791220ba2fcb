"""What stands on top of a written report: faults first, then one sentence a concurrency, then what to be wary of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.report.flag_words import flag_sentence
from controller.report.sentences import level_sentences, recommendation_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.analysis.result import Flag, LevelAnalysis, SweepAnalysis

NOTHING = "Nothing has been measured yet, so nothing can be said."


def fault_sentences(analysis: SweepAnalysis | None) -> list[str]:
    """Return the faults; the same fault in several launches of an arm is told once with their number."""
    return _told_once(analysis.faults) if analysis else []


def warning_sentences(analysis: SweepAnalysis | None) -> list[str]:
    """Return the warnings, told in the same way."""
    return _told_once(flag for flag in analysis.flags if not flag.fault) if analysis else []


def verdict_lines(analysis: SweepAnalysis | None) -> list[dict[str, str]]:
    """Return the recommendation of each concurrency: {"place": which one if there are several, "sentence": words}."""
    if analysis is None:
        return [{"place": "", "sentence": NOTHING}]
    several = len(analysis.levels) > 1
    return [
        {
            "place": f"Concurrency {level.concurrency}" if several else "",
            "sentence": recommendation_sentence(level),
        }
        for level in analysis.levels
    ]


def level_details(level: LevelAnalysis, margin: float) -> list[str]:
    """Return the sentences about the arms of a concurrency."""
    return level_sentences(level, margin)[1:]


def _told_once(flags: Iterable[Flag]) -> list[str]:
    groups: dict[tuple[str, str | None, int | None], list[Flag]] = {}
    for flag in flags:
        groups.setdefault((flag.code, flag.arm, flag.concurrency), []).append(flag)
    sentences = []
    for first, *others in groups.values():
        count = len(others)
        more = f" The same in {count} more launch{'es' if count > 1 else ''} of this arm." if others else ""
        sentences.append(flag_sentence(first) + more)
    return sentences
