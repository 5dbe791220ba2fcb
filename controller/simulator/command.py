"""``simulator``: commands for a simulated node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from controller.paths import simulator_node
from controller.simulator.create import create_node
from controller.simulator.node import Node, NodeError
from controller.simulator.profiles import NAMES
from controller.simulator.site.sglang.faults import DESCRIPTIONS

_NODE = click.argument("node", type=click.Path(path_type=Path, file_okay=False), required=False)


@click.group()
def simulator() -> None:
    """Create and look after a simulated node: an SGLang, a pct and an nvidia-smi that need no GPU.

    NODE is a directory, by default the one that is used when no inventory is given. Every figure measured on it is
    simulated.
    """


@simulator.command()
@_NODE
@click.option(
    "--profile", type=click.Choice(NAMES), default="story", show_default=True, help="What the machine is like."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Start of all pseudo-random draws.")
@click.option("--gpus", type=click.IntRange(1, 64), default=8, show_default=True, help="Number of GPUs.")
@click.option(
    "--time-scale", type=click.FloatRange(0, min_open=True), help="Wire seconds per simulated second of serving."
)
@click.option("--loading-scale", type=click.FloatRange(0, min_open=True), help="The same for start-up and shutdown.")
def create(
    node: Path | None, *, profile: str, seed: int, gpus: int, time_scale: float | None, loading_scale: float | None
) -> None:
    """Create a simulated node in an empty directory."""
    path = node or simulator_node()
    try:
        made = create_node(
            path,
            profile,
            seed=seed,
            gpus=gpus,
            time_scale=time_scale,
            loading_scale=loading_scale,
        )
    except NodeError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"cannot create the simulated node in {path}: {error.strerror}.") from error
    click.echo(f"Created {made.path}: {made.settings['description']}")


@simulator.command()
@_NODE
@click.option("--set", "changes", metavar="NAME=VALUE", multiple=True, help="A fault; the value is JSON or a word.")
@click.option("--clear", is_flag=True, help="Remove all faults first.")
def faults(node: Path | None, changes: tuple[str, ...], *, clear: bool) -> None:
    """Show or change what goes wrong on a node from its next launch on."""
    loaded = _load(node)
    configured: dict[str, Any] = {} if clear else dict(loaded.settings["faults"])
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals:
            raise click.UsageError(f"{change!r} is not NAME=VALUE.")
        configured[name] = _value(value)
    if changes or clear:
        try:
            loaded.configure(faults=configured)
        except (TypeError, ValueError) as error:
            raise click.UsageError(str(error)) from error
    for name, description in DESCRIPTIONS.items():
        state = json.dumps(configured[name]) if name in configured else "off"
        click.echo(f"{name} = {state}\n    {description}")


@simulator.command()
@_NODE
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(node: Path | None, *, as_json: bool) -> None:
    """Show a node's profile, faults and processes."""
    loaded = _load(node)
    processes = loaded.processes()
    settings = loaded.settings
    if as_json:
        rows = [{"pid": process.pid, "parent": process.parent, "name": process.name} for process in processes]
        shown = {key: settings[key] for key in ("profile", "seed", "time_scale", "loading_scale", "faults")}
        click.echo(json.dumps({"node": str(loaded.path), "simulated": True, **shown, "processes": rows}))
        return
    click.echo(f"{loaded.path}: {settings['description']}")
    click.echo(f"seed {settings['seed']}, time scale {settings['time_scale']}, faults {settings['faults'] or 'none'}")
    for process in processes:
        click.echo(f"{process.pid:>8}  {process.name}")
    if not processes:
        click.echo("No process is running.")


def _load(node: Path | None) -> Node:
    try:
        return Node.load(node or simulator_node())
    except NodeError as error:
        raise click.UsageError(str(error)) from error


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
