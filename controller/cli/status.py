"""``status``: what runs on the node, who holds it, and which sweeps died. Changes nothing."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from controller.apply.history import History
from controller.cli.history import unfinished_sentences
from controller.cli.options import debug_option, find_target, json_option, target_options
from controller.exits import Exit, TargetError
from controller.lock import Holder, holders
from controller.playbooks import PlaybookRun, Playbooks
from controller.sweep import leftovers
from controller.sweep.look import look

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.inventory import Target


@click.command()
@target_options
@json_option
@debug_option
def status(inventory: Path | None, limit: str | None, *, as_json: bool) -> int:
    """Show the server's phase and identity, running sweeps, and what a killed sweep left behind."""
    target = find_target(inventory, limit, create=True)
    with tempfile.TemporaryDirectory(prefix="controller-") as folder:
        played = look(Playbooks(target), Path(folder))
    health = played.results.get("sglang_health", {})
    if not health and not played.ok:
        raise TargetError(f"{target.title}: {played.sentence}")
    # What a deployment left is told from its history, which knows more than the note of the lock.
    sweeps = [holder for holder in holders() if holder.work != "deployment" or holder.alive]
    deployments = unfinished_sentences(target, History(target).deployments())
    if as_json:
        click.echo(json.dumps(_document(target, health, sweeps) | {"deployments": deployments}, indent=2))
        return Exit.OK
    console = Console()
    for line in [_server_line(target, health, played), *(_holder_line(holder) for holder in sweeps), *deployments]:
        console.out(line, highlight=False)
    if not sweeps:
        console.print("no sweep is running here, and none was left behind", highlight=False)
    return Exit.OK


def _server_line(target: Target, health: Mapping[str, Any], played: PlaybookRun) -> str:
    launch, server = health.get("launch") or {}, health.get("server") or {}
    if health.get("ready"):
        steps = server.get("speculative_num_steps")
        algorithm = server.get("speculative_algorithm")
        speculation = f"{algorithm}, {steps} steps" if algorithm else "no speculation"
        owner = f", of sweep {launch['owner']}" if launch.get("owner") else ""
        return (
            f"{target.title}: serving {server.get('served_model_name')} at {health.get('url')} "
            f"(SGLang {server.get('version')}, {speculation}, process {launch.get('pid')}{owner})"
        )
    failure = health.get("failure") or {}
    reason = failure.get("cause") or ("" if played.status == "cancelled" else played.sentence)
    because = f": {reason}" if reason else ""
    return f"{target.title}: no server is ready, phase {health.get('phase') or 'none'}{because}"


def _holder_line(holder: Holder) -> str:
    if holder.is_playbook:
        if holder.alive:
            return f"{holder.work} is at work on {holder.node}: process {holder.pid}, since {holder.since_text}"
        return f"{holder.work} on {holder.node} was cut off; repeat it: python -m controller {holder.work}"
    if holder.alive:
        return (
            f"{holder.work} {holder.sweep_id} is running on {holder.node}: process {holder.pid} in {holder.directory}, "
            f"since {holder.since_text}"
        )
    found = leftovers.find(holder.place)
    cell = f" cell {found.cell}" if found and found.cell else ""
    return (
        f"the server of sweep {holder.sweep_id}{cell} on {holder.node} may still be running; its controller is gone. "
        f"Clean up: python -m controller stop; go on: python -m controller sweep --resume {holder.directory}"
    )


def _document(target: Target, health: Mapping[str, Any], sweeps: list[Holder]) -> dict[str, Any]:
    return {
        "target": target.host,
        "simulated": target.simulated,
        "server": {name: health.get(name) for name in ("ready", "phase", "url", "launch", "server", "dead", "failure")},
        "sweeps": [
            {
                "sweep_id": holder.sweep_id,
                "directory": holder.directory,
                "pid": holder.pid,
                "since": holder.since,
                "alive": holder.alive,
                "node": holder.node,
                "message": _holder_line(holder),
            }
            for holder in sweeps
        ],
    }
