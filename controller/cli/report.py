"""``report``: the result of a sweep, made anew from its journal."""

from __future__ import annotations

from pathlib import Path

import click

from controller.cli.options import debug_option, json_option
from controller.cli.show import show_sweep
from controller.exits import Exit


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@json_option
@debug_option
def report(directory: Path, *, as_json: bool) -> int:
    """Show the result of the sweep in DIRECTORY: table, verdicts in words, break-even. Reads the journal only."""
    show_sweep(directory, as_json=as_json)
    return Exit.OK
