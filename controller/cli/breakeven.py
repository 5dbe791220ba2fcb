"""``breakeven``: what speculation needs to pay, from two measured times."""

from __future__ import annotations

import json

import click
from rich.console import Console

from controller.analysis.breakeven import BreakevenError
from controller.analysis.breakeven import breakeven as compute
from controller.cli.options import debug_option, json_option
from controller.exits import Exit, InputError
from controller.report.text import render_breakeven


@click.command()
@click.option(
    "--decode-ms", type=float, required=True, help="T1: one decode step without speculation, in milliseconds."
)
@click.option("--cycle-ms", type=float, required=True, help="C: one draft-and-verify cycle, in milliseconds.")
@click.option(
    "--max-steps", type=int, default=8, show_default=True, help="Largest number of draft steps to answer for."
)
@json_option
@debug_option
def breakeven(decode_ms: float, cycle_ms: float, max_steps: int, *, as_json: bool) -> int:
    """Say how many tokens a cycle must yield (L* = C / T1) and which acceptance that takes for each number of steps.

    \b
    Example:
      python -m controller breakeven --decode-ms 12 --cycle-ms 30
    """
    try:
        result = compute(decode_ms, cycle_ms, max_steps)
    except BreakevenError as error:
        raise InputError(str(error)) from error
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=2))
    else:
        render_breakeven(result, Console())
    return Exit.OK
