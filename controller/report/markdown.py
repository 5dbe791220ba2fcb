"""The report as Markdown, for a pull request or a wiki: the same words and numbers, the main figure beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.report.adaptive import adaptive_sentence
from controller.report.arm_words import verdict_word
from controller.report.facts import as_text
from controller.report.method import commands, method_facts
from controller.report.numbers import interval, plain
from controller.report.rows import columns, launch_rows, shown
from controller.report.sentences import SIMULATED
from controller.report.summary import fault_sentences, level_details, verdict_lines, warning_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controller.analysis.result import LevelAnalysis, SweepAnalysis
    from controller.report.facts import CellFacts, SweepFacts

ARM_HEADINGS = ("arm", "verdict", "launches", "tok/s", "S", "L", "L*", "C ms")
SPECIAL = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|#"})


def markdown_report(facts: SweepFacts, *, figure: str | None) -> str:
    """Return the report; ``figure`` is the file name of the main figure, when there is one."""
    parts = [f"# Does speculation pay? Sweep {_text(facts.plan.sweep_id)}"]
    if facts.simulated:
        parts.append(f"**{SIMULATED}**")
    parts += [f"> **FAULT** {_text(sentence)}" for sentence in fault_sentences(facts.analysis)]
    for line in verdict_lines(facts.analysis):
        place = f"{line['place']}: " if line["place"] else ""
        parts.append(f"**{_text(place + line['sentence'])}**")
    parts.append(_list(f"Warning: {sentence}" for sentence in warning_sentences(facts.analysis)))
    if facts.analysis:
        if figure:
            parts.append(f"![Throughput by arm, every launch, intervals over launches]({figure})")
        for level in facts.analysis.levels:
            parts += _level(level, facts.analysis, simulated=facts.simulated)
    if facts.failed:
        parts.append("## Failed launches")
        parts += [_failed(cells) for cells in facts.failed]
    parts.append("## Every launch" + (" (simulated)" if facts.simulated else ""))
    shown_columns = columns(facts)
    rows = [[shown(column, row) for column in shown_columns] for row in launch_rows(facts)]
    parts.append(_table([column.heading for column in shown_columns], rows))
    parts.append("## How it was measured")
    parts.append(_table(("what", "value"), method_facts(facts)))
    parts += [f"{_text(name)}:\n\n{_fenced(command, 'console')}" for name, command in commands(facts)]
    parts.append(_text(adaptive_sentence(facts.analysis)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _level(level: LevelAnalysis, analysis: SweepAnalysis, *, simulated: bool) -> list[str]:
    note = ", simulated" if simulated else ""
    rows = [
        (
            arm.arm,
            verdict_word(arm),
            str(arm.launches),
            interval(arm.tokens_per_s, 1),
            interval(arm.speedup, 3),
            interval(arm.acceptance_length),
            plain(arm.break_even_length.value if arm.break_even_length else None),
            interval(arm.cycle_s, 1, 1000.0),
        )
        for arm in level.arms
    ]
    return [
        f"## Concurrency {level.concurrency}{note} ({analysis.confidence:.0%} intervals over launches)",
        _table(ARM_HEADINGS, rows),
        _list(level_details(level, analysis.margin)),
    ]


def _failed(cells: Sequence[CellFacts]) -> str:
    """Return cells that failed alike, with the log of the first."""
    first = cells[0]
    tail = "\n".join(map(str, first.failure.get("log_tail") or []))
    sentence = as_text(first.failure.get("sentence") or "The journal names no reason.")
    names = ", ".join(cell.cell_id for cell in cells)
    parts = [f"### {_text(names)}: {_text(first.failure_class)}", _text(sentence)]
    parts.append(" ".join(f"[{_text(log)}]({log})" for cell in cells for log in cell.logs))
    return "\n\n".join(part for part in (*parts, _fenced(tail, "text") if tail else "") if part)


def _text(words: str) -> str:
    """Escape what Markdown or HTML would read as something else."""
    return " ".join(words.translate(SPECIAL).split())


def _list(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {_text(sentence)}" for sentence in sentences)


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = [_text(heading) for heading in headings]
    lines = [heads, ["---"] * len(heads), *([_text(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _fenced(text: str, language: str) -> str:
    """Return a code block whose fence is longer than any row of backticks in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
