"""Tables for a terminal, and the JSON twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.analysis.result import Verdict
from controller.report.arm_words import launches_words, ttft_words, verdict_word
from controller.report.numbers import interval, plain
from controller.report.sentences import breakeven_sentences, sweep_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType
    from rich.table import Table

    from controller.analysis.breakeven import Breakeven
    from controller.analysis.result import ArmAnalysis, LevelAnalysis, SweepAnalysis

STYLES = {
    Verdict.PAYS: "green",
    Verdict.HURTS: "red",
    Verdict.INVALID: "bold red",
    Verdict.FAILED: "bold red",
    Verdict.UNDECIDED: "yellow",
    Verdict.UNCONFIRMED: "yellow",
}
SPEED_COLUMNS = ("arm", "launches", "tok/s", "S", "verdict")
CAUSE_COLUMNS = ("arm", "L", "L*", "C ms", "e2e tok/s", "TTFT ms")
LEFT = frozenset({"arm", "verdict"})


def render(analysis: SweepAnalysis, console: Console) -> None:
    """Write the whole report: two tables a concurrency, then the sentences, faults first."""
    for level in analysis.levels:
        for table in level_tables(level, simulated=analysis.simulated, confidence=analysis.confidence):
            console.print(table)
    for sentence in sweep_sentences(analysis):
        console.print(sentence, style=_sentence_style(sentence), markup=False, highlight=False)


def level_tables(level: LevelAnalysis, *, simulated: bool, confidence: float) -> tuple[Table, Table]:
    """Return the tables of one concurrency, each for 80 columns: how fast, and why.

    tok/s is the decode speed of one stream; e2e is all streams together, prompts included; TTFT is median, 99th
    percentile. In the row of the baseline, C is the time of one decode step (T1).
    """
    note = ", simulated" if simulated else ""
    title = f"Concurrency {level.concurrency}{note} ({confidence:.0%} intervals over launches)"
    speed, cause = figure_table(title, SPEED_COLUMNS), figure_table(None, CAUSE_COLUMNS)
    for arm in level.arms:
        speed.add_row(*_speed_row(arm))
        cause.add_row(*_cause_row(arm))
    return speed, cause


def figure_table(title: str | None, columns: Sequence[str]) -> Table:
    """Return an empty table for arms and their figures."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  # rich costs 0.1 s that no other subcommand should pay
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for column in columns:
        # Folded where the terminal is too narrow: half a figure is worse than two lines.
        table.add_column(column, justify="left" if column in LEFT else "right", overflow="fold")
    return table


def _speed_row(arm: ArmAnalysis) -> list[RenderableType]:
    """Return how fast an arm is, and its verdict."""
    from rich.text import Text  # noqa: PLC0415

    style = STYLES.get(arm.verdict, "") if arm.verdict else ""
    cells = [arm.arm, launches_words(arm), interval(arm.tokens_per_s, 1), interval(arm.speedup, 3)]
    return [*(Text(cell) for cell in cells), Text(verdict_word(arm), style=style)]


def _cause_row(arm: ArmAnalysis) -> list[RenderableType]:
    """Return what makes an arm as fast as it is."""
    from rich.text import Text  # noqa: PLC0415

    output = plain(arm.output_tokens_per_s.value, 1) if arm.output_tokens_per_s else "-"
    cells = [
        arm.arm,
        interval(arm.acceptance_length),
        plain(arm.break_even_length.value if arm.break_even_length else None),
        interval(arm.cycle_s, 1, 1000.0),
        output,
        ttft_words(arm),
    ]
    return [Text(cell) for cell in cells]


def _sentence_style(sentence: str) -> str:
    """Return the colour of a sentence."""
    if sentence.startswith("FAULT"):
        return "bold red"
    return "yellow" if sentence.startswith("Warning") else ""


def render_breakeven(result: Breakeven, console: Console) -> None:
    """Write the break-even table and its sentences."""
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=f"Break-even at L* = {plain(result.break_even_length)}")
    for column in ("steps", "largest L", "needed acceptance per position"):
        table.add_column(column, justify="right")
    for step in result.steps:
        needed = plain(step.needed_acceptance, 3) if step.can_pay else "cannot pay"
        table.add_row(str(step.steps), plain(step.largest_length, 0), needed)
    console.print(table)
    for sentence in breakeven_sentences(result):
        console.print(sentence, markup=False, highlight=False)


def report_json(analysis: SweepAnalysis) -> dict[str, Any]:
    """Return the JSON twin of the report: the analysis and its sentences."""
    return {**analysis.to_json(), "sentences": sweep_sentences(analysis)}


def breakeven_json(result: Breakeven) -> dict[str, Any]:
    """Return the JSON twin of the break-even."""
    return {**result.to_json(), "sentences": breakeven_sentences(result)}
