"""``history``: what was deployed on a node, when, by whom, and how it ended. Changes nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from controller.apply.history import Deployment, History, date
from controller.cli.deployments import SCHEMA, rollback_command
from controller.cli.options import debug_option, find_target, json_option, target_options
from controller.exits import Exit
from controller.report.numbers import plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from controller.inventory import Target


@click.command()
@target_options
@json_option
@debug_option
def history(inventory: Path | None, limit: str | None, *, as_json: bool) -> int:
    """List the deployments of a node by apply and rollback, oldest first; --json shows settings and figures too."""
    target = find_target(inventory, limit, create=False)
    kept = History(target)
    known = kept.deployments()
    sentences = unfinished_sentences(target, known)
    if as_json:
        document = {
            "schema": SCHEMA,
            "target": target.host,
            "simulated": target.simulated,
            "file": str(kept.path),
            "messages": sentences,
            "deployments": [one.as_json() for one in known],
        }
        click.echo(json.dumps(document, indent=2))
        return Exit.OK
    console = Console()
    if not known:
        console.print(f"nothing was deployed on {target.title} by apply yet", markup=False, highlight=False)
        return Exit.OK
    console.print(_table(known))
    for one in known:
        if one.reason:
            console.out(f"{one.number}: {one.reason}", highlight=False)
    for sentence in sentences:
        Console(stderr=True).out(sentence, highlight=False)
    return Exit.OK


def unfinished_sentences(target: Target, known: Sequence[Deployment]) -> list[str]:
    """Return what must be said of the newest deployment when it was cut off or failed, with the command that helps."""
    newest = known[-1] if known else None
    if newest is not None and newest.cut_off:
        return [f"{newest.cut_off_sentence}: {rollback_command(target)}"]
    if newest is not None and newest.outcome == "failed":
        return [f"{newest.title} failed, the server may be down: {newest.reason}; try: {rollback_command(target)}"]
    return []


def _table(known: Sequence[Deployment]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("id", "when", "who", "what", "verdict", "outcome", "canary"):
        table.add_column(name, overflow="fold")
    for one in known:
        what = f"back to {one.destination}" if one.action == "rollback" else f"{one.arm} of {one.sweep_id}"
        verdict = f"{one.verdict}, forced" if one.forced else one.verdict
        table.add_row(str(one.number), date(one.at), one.who, what, verdict, one.state.replace("_", " "), _canary(one))
    return table


def _canary(one: Deployment) -> str:
    """Return the measured and the predicted speed, one line for each concurrency."""
    lines = []
    for level in one.canary:
        predicted = level.get("predicted") or {}
        simulated = " (simulated)" if one.simulated else ""
        lines.append(
            f"{plain(level.get('tokens_per_s'), 1)} tok/s of [{plain(predicted.get('low'), 1)}, "
            f"{plain(predicted.get('high'), 1)}]{simulated}"
        )
    return "\n".join(lines)
