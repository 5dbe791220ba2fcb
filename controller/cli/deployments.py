"""What ``apply`` and ``rollback`` share: a deployer for a target, and how its end is printed."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from controller.apply.history import History
from controller.inventory import read_target
from controller.paths import SIMULATOR_INVENTORY, display
from controller.playbooks import Playbooks
from controller.sweep.leftovers import RunningNote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.apply.change import End
    from controller.apply.deployer import Deployer
    from controller.apply.ports import DeploymentWatcher
    from controller.inventory import Target

SCHEMA = 1


def rollback_command(target: Target) -> str:
    """Return what the operator types to take the newest deployment of a target back."""
    words = ["python", "-m", "controller", "rollback"]
    if target.inventory != SIMULATOR_INVENTORY:
        words += ["-i", display(target.inventory), "-l", target.host]
    return shlex.join(words)


def make_deployer(target: Target, watcher: DeploymentWatcher) -> Deployer:
    """Return the deployer of a target.

    Raises:
        InputError: its host cannot have variables of its own.
    """
    from controller.apply.deployer import Deployer  # noqa: PLC0415 - status and history only want the command above
    from controller.apply.host_vars import HostVars  # noqa: PLC0415 - imports yaml

    history = History(target)
    note = RunningNote(history.directory, "")
    return Deployer(
        target=target,
        host_vars=HostVars.of(target.inventory, target.host),
        history=history,
        playbooks=Playbooks(
            target, owner=str(history.directory.resolve()), on_child=lambda pid: note.update(child=pid)
        ),
        watcher=watcher,
        note=note,
        effective=lambda: read_target(target.inventory, target.host).variables,
        command=rollback_command(target),
    )


def show_end(end: End, target: Target, *, as_json: bool, more: Mapping[str, Any]) -> None:
    """Print how a deployment ended: one JSON document, or its sentences (what went wrong on standard error)."""
    if as_json:
        document = {
            "schema": SCHEMA,
            "outcome": end.outcome,
            "deployment": end.number,
            "target": target.host,
            "simulated": target.simulated,
            "exit_code": int(end.exit_code),
            "launches": end.launches,
            "canary": list(end.canary),
            "messages": list(end.sentences),
        }
        click.echo(json.dumps(document | dict(more), indent=2))
        return
    console = Console(stderr=end.exit_code != 0)
    for sentence in end.sentences:
        console.out(sentence, highlight=False)
