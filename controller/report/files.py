"""Writes the files of a report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from controller.exits import InputError
from controller.private_file import write_private
from controller.report.adaptive import adaptive_config
from controller.report.charts.inks import arm_styles
from controller.report.charts.throughput import throughput_chart

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from controller.report.charts.shapes import Drawing
    from controller.report.facts import SweepFacts

FIGURE_WIDTH = 900.0
ADAPTIVE = "adaptive.json"


def write_report(facts: SweepFacts, directory: Path, formats: Collection[str]) -> list[Path]:
    """Write the asked-for files and return them. A file is replaced whole or left as it was.

    An ``adaptive.json`` of an earlier report is removed when there is nothing to put in it any more.

    Raises:
        InputError: a file cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        written = []
        for name, data in _contents(facts, directory, formats):
            write_private(directory / name, data)
            written.append(directory / name)
        if "adaptive" in formats and directory / ADAPTIVE not in written:
            (directory / ADAPTIVE).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot write the report in {directory}: {error.strerror}. Name another directory with --output, "
            "or write nothing with --format none."
        ) from error
    return written


def _contents(facts: SweepFacts, directory: Path, formats: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, content)."""
    figures = main_figures(facts)
    if "html" in formats:
        from controller.report.html import html_report  # noqa: PLC0415  # only this needs Jinja2

        yield "report.html", html_report(facts, directory=directory).encode()
    if "svg" in formats:
        from controller.report.charts.svg import svg_file  # noqa: PLC0415

        yield from ((f"{name}.svg", svg_file(drawing).encode()) for name, drawing in figures)
    if "png" in formats:
        from controller.report.charts.png import png_file  # noqa: PLC0415  # only this needs Pillow

        yield from ((f"{name}.png", png_file(drawing)) for name, drawing in figures)
    if "markdown" in formats:
        from controller.report.markdown import markdown_report  # noqa: PLC0415

        ending = next((ending for ending in ("svg", "png") if ending in formats), None)
        figure = f"{figures[0][0]}.{ending}" if figures and ending else None
        yield "report.md", markdown_report(facts, figure=figure).encode()
    if "csv" in formats:
        from controller.report.csv_files import cells_csv, requests_csv  # noqa: PLC0415

        yield "cells.csv", cells_csv(facts).encode()
        yield "requests.csv", requests_csv(facts).encode()
    config = adaptive_config(facts.analysis) if facts.analysis and "adaptive" in formats else None
    if config is not None:
        yield ADAPTIVE, (json.dumps(config, indent=2) + "\n").encode()


def main_figures(facts: SweepFacts) -> list[tuple[str, Drawing]]:
    """Return (name, throughput chart) of each concurrency; one alone is called throughput."""
    analysis = facts.analysis
    if analysis is None:
        return []
    styles = arm_styles([arm.name for arm in facts.plan.arms], analysis.baseline)
    several = len(analysis.levels) > 1
    return [
        (
            f"throughput-c{level.concurrency}" if several else "throughput",
            throughput_chart(
                level, styles, width=FIGURE_WIDTH, confidence=analysis.confidence, simulated=facts.simulated
            ),
        )
        for level in analysis.levels
    ]
