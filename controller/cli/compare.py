"""``compare``: what changed from one sweep to another."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from controller.cli.options import debug_option, json_option
from controller.exits import Exit, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.analysis.compare import ArmChange
    from controller.report.comparison import Difference
    from controller.report.facts import SweepFacts

SCHEMA = 1


@click.command()
@click.argument("first", metavar="A", type=click.Path(path_type=Path))
@click.argument("second", metavar="B", type=click.Path(path_type=Path))
@click.option("--anyway", is_flag=True, help="Compare although the workloads differ; the differences are shown.")
@json_option
@debug_option
def compare(first: Path, second: Path, *, anyway: bool, as_json: bool) -> int:
    """Compare the arms that two sweeps share: A before, B after. Reads the two journals only.

    PAYS: B is faster by more than the margin; HURTS: it is slower; EQUAL, UNDECIDED, UNCONFIRMED as in a sweep. The
    interval is Welch's over launches. Sweeps with other prompts, answer lengths or concurrency are refused.

    \b
    Examples:
      python -m controller compare sweeps/before sweeps/after
      python -m controller sweep --steps 2,3 --seed 7     (give both sweeps the same seed: it chooses the prompts)
    """
    from controller.analysis.compare import compare_sweeps  # noqa: PLC0415 - imports scipy
    from controller.report.comparison import other_differences, workload_differences  # noqa: PLC0415
    from controller.report.facts import collect  # noqa: PLC0415
    from controller.sweep.results import launches, read_sweep  # noqa: PLC0415

    sides = [collect(first), collect(second)]
    for directory, facts in zip((first, second), sides, strict=True):
        if facts.analysis is None:
            raise InputError(f"{directory}: nothing has been measured in this sweep yet.")
    workload = workload_differences(*sides)
    if workload and not anyway:
        told = "; ".join(item.sentence for item in workload)
        raise InputError(
            f"the sweeps cannot be compared, their workloads differ: {told}. Give both the same --seed and workload "
            "options, or use --anyway and read the figures with that in mind."
        )
    margin = max(facts.analysis.margin for facts in sides if facts.analysis)
    confidence = max(facts.analysis.confidence for facts in sides if facts.analysis)
    changes = compare_sweeps(
        launches(*read_sweep(first)), launches(*read_sweep(second)), margin=margin, confidence=confidence
    )
    if not changes:
        raise InputError("the sweeps share no arm at a common concurrency; nothing can be compared.")
    other = other_differences(*sides)
    if as_json:
        click.echo(json.dumps(_document(sides, changes, workload, other, margin), indent=2))
    else:
        _render(sides, changes, workload, other, margin)
    return Exit.OK


def _document(
    sides: Sequence[SweepFacts],
    changes: Sequence[ArmChange],
    workload: Sequence[Difference],
    other: Sequence[Difference],
    margin: float,
) -> dict[str, object]:
    from controller.report.comparison import change_sentence, finite  # noqa: PLC0415

    return {
        "schema": SCHEMA,
        "a": sides[0].plan.sweep_id,
        "b": sides[1].plan.sweep_id,
        "simulated": [facts.simulated for facts in sides],
        "margin": margin,
        "workload_differences": [dataclasses.asdict(item) for item in workload],
        "other_differences": [dataclasses.asdict(item) for item in other],
        "arms": [finite(dataclasses.asdict(item)) for item in changes],
        "sentences": [change_sentence(item, margin) for item in changes],
    }


def _render(
    sides: Sequence[SweepFacts],
    changes: Sequence[ArmChange],
    workload: Sequence[Difference],
    other: Sequence[Difference],
    margin: float,
) -> None:
    from rich.text import Text  # noqa: PLC0415

    from controller.report.comparison import change_sentence  # noqa: PLC0415
    from controller.report.numbers import interval, plain  # noqa: PLC0415
    from controller.report.text import STYLES, figure_table  # noqa: PLC0415

    console = Console()
    simulated = ", simulated" if any(facts.simulated for facts in sides) else ""
    title = f"A {sides[0].plan.sweep_id}, B {sides[1].plan.sweep_id}{simulated}"
    table = figure_table(title, ("arm", "conc.", "A tok/s", "B tok/s", "B / A", "verdict"))
    for item in changes:
        figures = [plain(speed, 1) for speed in item.tokens_per_s]
        cells = [item.arm, str(item.concurrency), *figures, interval(item.speed, 3)]
        table.add_row(*map(Text, cells), Text(item.verdict.value, style=STYLES.get(item.verdict, "")))
    console.print(table)
    lines = [f"Warning: the workloads differ. {item.sentence}" for item in workload]
    lines += [change_sentence(item, margin) for item in changes]
    lines += [f"Also different: {item.sentence}." for item in other] or ["Nothing else that is recorded differs."]
    for line in lines:
        console.print(line, markup=False, highlight=False)
