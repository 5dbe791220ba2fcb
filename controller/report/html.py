"""The report as one HTML file that needs nothing else: no network, no fonts, no script from elsewhere.

Every text is escaped by Jinja2 or by ``charts.svg``, and a content security policy allows the one script of the page by
its hash, so that a line of a log can never become code.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import controller
from controller.report.adaptive import adaptive_sentence
from controller.report.arm_words import launches_words, ttft_words, verdict_word
from controller.report.charts.inks import INKS, arm_styles
from controller.report.charts.order import order_chart
from controller.report.charts.phases import MOST_BARS, phases_chart
from controller.report.charts.plane import plane_chart, readings_fit
from controller.report.charts.positions import positions_chart
from controller.report.charts.svg import inline_svg
from controller.report.charts.throughput import throughput_chart
from controller.report.facts import as_text
from controller.report.method import commands, method_facts
from controller.report.numbers import interval
from controller.report.rows import columns, launch_rows, shown
from controller.report.sentences import SIMULATED
from controller.report.summary import fault_sentences, level_details, verdict_lines, warning_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controller.analysis.result import ArmAnalysis, Interval, LevelAnalysis, SweepAnalysis
    from controller.report.charts.shapes import Drawing
    from controller.report.facts import CellFacts, SweepFacts

TEMPLATES = Path(__file__).parent / "templates"
WIDE, NARROW = 900.0, 356.0
DETAILS = ("phase", "cause", "remedy", "exit_status", "survivors", "task")


def html_report(facts: SweepFacts, *, directory: Path) -> str:
    """Return the page; links to server logs are relative to ``directory``, where the page will be."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415  # 0.1 s that only this needs
    from markupsafe import Markup  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    pictures = _Pictures(facts, Markup)
    prefix = os.path.relpath(facts.directory, directory)
    return environment.get_template("report.html.j2").render(
        title=f"Does speculation pay? Sweep {facts.plan.sweep_id}" + (" (simulated)" if facts.simulated else ""),
        css=Markup(_variables() + (TEMPLATES / "report.css").read_text(encoding="utf-8")),  # noqa: S704  # our file
        script=Markup(script),  # noqa: S704  # our file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        plan=facts.plan,
        simulated=facts.simulated,
        simulated_words=SIMULATED,
        confidence=f"{facts.analysis.confidence:.0%}" if facts.analysis else "",
        verdict_confidence=_verdict_confidence(facts),
        faults=fault_sentences(facts.analysis),
        verdicts=verdict_lines(facts.analysis),
        warnings=warning_sentences(facts.analysis),
        levels=_levels(facts.analysis, pictures),
        phases=pictures.phases(),
        failed=[_failed(cells, prefix) for cells in facts.failed],
        columns=columns(facts),
        rows=_rows(facts, prefix),
        method=method_facts(facts),
        commands=commands(facts),
        adaptive=adaptive_sentence(facts.analysis),
        version=controller.__version__,
    )


def _verdict_confidence(facts: SweepFacts) -> str:
    """Return the confidence of the speed-ups where it is not that of the other intervals."""
    analysis = facts.analysis
    if analysis is None or analysis.verdict_confidence in (None, analysis.confidence):
        return ""
    return f"{analysis.verdict_confidence:.1%}"


def _variables() -> str:
    """Return the colours of both themes as CSS variables."""
    colours = "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in INKS.items())
    return f":root{{{colours}--link:light-dark(#0066b0,#66b2ff);}}\n"


class _Pictures:
    """Draws each chart twice, for wide and for narrow pages: text keeps its size on a phone."""

    def __init__(self, facts: SweepFacts, markup: Callable[[str], str]) -> None:
        self._facts = facts
        self._markup = markup
        baseline = facts.analysis.baseline if facts.analysis else None
        self.styles = arm_styles([arm.name for arm in facts.plan.arms], baseline)

    def _both(
        self, name: str, heading: str, note: str, draw: Callable[[float], Drawing | None]
    ) -> dict[str, str] | None:
        wide, narrow = draw(WIDE), draw(NARROW)
        if wide is None or narrow is None:
            return None
        return {
            "id": name,
            "heading": heading,
            "note": note,
            "wide": self._markup(inline_svg(wide, "wide")),
            "narrow": self._markup(inline_svg(narrow, "narrow", titles=False)),
        }

    def throughput(self, level: LevelAnalysis, confidence: float) -> dict[str, str] | None:
        """Return throughput by arm."""
        return self._both(
            f"throughput-{level.concurrency}",
            "Throughput by arm",
            f"Every mark is one launch; the bar below is the {confidence:.0%} interval of the mean over launches, an "
            "arrow where it goes on. Dashed: the baseline. Hollow marks only confirm. The axis does not start at 0.",
            lambda width: throughput_chart(
                level, self.styles, width=width, confidence=confidence, simulated=self._facts.simulated
            ),
        )

    def plane(self, level: LevelAnalysis) -> dict[str, str] | None:
        """Return acceptance length against cycle time."""
        note = "Every mark is one launch. On the line a launch is as fast as the baseline; the band is its interval."
        if readings_fit(level):
            note += (
                " Hollow diamonds are a worked example, not measured here: 94 tok/s once, and the two readings of the "
                "60 tok/s after it (L fell, or C grew). Throughput alone cannot tell them apart."
            )
        return self._both(
            f"plane-{level.concurrency}",
            "Acceptance length and cycle time",
            note,
            lambda width: plane_chart(level, self.styles, width=width, simulated=self._facts.simulated),
        )

    def positions(self, level: LevelAnalysis) -> dict[str, str] | None:
        """Return acceptance by position."""
        return self._both(
            f"positions-{level.concurrency}",
            "Acceptance by position",
            "How often the draft token at a position is accepted, given that all before it were; pooled over launches. "
            "Dashed: what every position would need on average to break even.",
            lambda width: positions_chart(level, self.styles, width=width, simulated=self._facts.simulated),
        )

    def order(self, level: LevelAnalysis) -> dict[str, str] | None:
        """Return launches in order."""
        return self._both(
            f"order-{level.concurrency}",
            "Launch order and drift",
            "Launches in the order in which they happened; stripes are blocks. The axis does not start at 0.",
            lambda width: order_chart(
                level, self._facts.cells, self.styles, width=width, simulated=self._facts.simulated
            ),
        )

    def phases(self) -> dict[str, str] | None:
        """Return the timeline of starts."""
        told = sum(1 for cell in self._facts.cells if cell.phase_seconds)
        kind = "launch" if told <= MOST_BARS else f"arm (medians of {told} launches)"
        source = ", on a simulated server" if self._facts.simulated else ""
        return self._both(
            "phases-figure",
            f"Phases of each {kind}",
            f"From the start of the process until it serves, as its log and health checks tell{source}; wall clock.",
            lambda width: phases_chart(self._facts.cells, self.styles, width=width),
        )


def _levels(analysis: SweepAnalysis | None, pictures: _Pictures) -> list[dict[str, Any]]:
    """Return each concurrency; none before anything has been measured."""
    if analysis is None:
        return []
    return [
        {
            "concurrency": level.concurrency,
            "arms": [_arm(arm, pictures.styles[arm.arm][0]) for arm in level.arms],
            "sentences": level_details(level, analysis.margin),
            "throughput": pictures.throughput(level, analysis.confidence),
            "plane": pictures.plane(level),
            "positions": pictures.positions(level),
            "order": pictures.order(level),
        }
        for level in analysis.levels
    ]


def _arm(arm: ArmAnalysis, ink: str) -> dict[str, Any]:
    """Return a row of the table of arms."""
    return {
        "name": arm.arm,
        "ink": ink,
        "verdict": verdict_word(arm),
        "launches": launches_words(arm),
        "speed": _estimate(arm.tokens_per_s, 1),
        "speedup": _estimate(arm.speedup, 3),
        "length": _estimate(arm.acceptance_length),
        "needed": _estimate(arm.break_even_length),
        "cycle": _estimate(arm.cycle_s, 1, 1000.0),
        "ttft": ttft_words(arm),
    }


def _estimate(value: Interval | None, digits: int = 2, scale: float = 1.0) -> dict[str, str]:
    """Return an estimate and, for a line of its own, its interval."""
    estimate, _, bounds = interval(value, digits, scale).partition(" [")
    return {"value": estimate, "bounds": f"[{bounds}" if bounds else ""}


def _failed(cells: Sequence[CellFacts], prefix: str) -> dict[str, Any]:
    """Return the diagnosis of cells that failed alike, with the log of the first."""
    failure = cells[0].failure
    tail = failure.get("log_tail") or []
    return {
        "cells": ", ".join(cell.cell_id for cell in cells),
        "failure_class": cells[0].failure_class,
        "sentence": as_text(failure.get("sentence") or "The journal names no reason."),
        "details": [
            (name.replace("_", " "), as_text(failure[name]))
            for name in DETAILS
            if failure.get(name) not in (None, "", [])
        ],
        "logs": [{"name": log, "href": _href(prefix, log)} for cell in cells for log in cell.logs],
        "tail": "\n".join(map(str, tail)),
    }


def _href(prefix: str, path: str) -> str:
    """Return a relative address; ``./`` keeps a first part with a colon from being read as a scheme."""
    return quote(path if prefix == "." else f"{prefix}/{path}")


def _rows(facts: SweepFacts, prefix: str) -> list[list[dict[str, Any]]]:
    """Return the big table; the name of a cell leads to its log."""
    logs = {cell.cell_id: cell.logs[-1] for cell in facts.cells if cell.logs}
    shown_columns = columns(facts)
    rows = []
    for row in launch_rows(facts):
        log = logs.get(str(row["cell"]))
        rows.append(
            [
                {
                    "text": shown(column, row),
                    "numeric": column.numeric,
                    "href": _href(prefix, log) if log and column.name == "cell" else "",
                }
                for column in shown_columns
            ]
        )
    return rows
