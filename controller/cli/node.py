"""``stop`` and ``clean``: one playbook each, under the lock of the node."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from controller.cli.options import debug_option, find_target, json_option, target_options
from controller.exits import Exit, TargetError
from controller.lock import NodeLock, node_key
from controller.playbooks import PlaybookRun, Playbooks
from controller.sweep import leftovers
from controller.sweep.interrupt import Interrupts

if TYPE_CHECKING:
    from controller.inventory import Target


@click.command()
@target_options
@json_option
@debug_option
def stop(inventory: Path | None, limit: str | None, *, as_json: bool) -> int:
    """Stop the server gracefully, end what is left of it and check that the GPU memory is free.

    Refused while a sweep is running on the node. After a sweep that was killed, this cleans up.
    """
    return _act("stop", find_target(inventory, limit, create=True), as_json=as_json)


@click.command()
@target_options
@json_option
@debug_option
def clean(inventory: Path | None, limit: str | None, *, as_json: bool) -> int:
    """End the GPU processes of the node's container, and no others: first asked, then forced, then checked."""
    return _act("clean", find_target(inventory, limit, create=True), as_json=as_json)


def _act(playbook: str, target: Target, *, as_json: bool) -> int:
    lock = NodeLock(node_key(target.lock_identity), target.title)
    with tempfile.TemporaryDirectory(prefix="controller-") as folder:
        lock.acquire(playbook, Path(folder), work=playbook)
        before = lock.predecessor
        done = False
        try:
            found = leftovers.left_by(before)
            if found:
                leftovers.finish(found)
            played = _run(playbook, target, Path(folder))
            done = played.ok
            if found and played.ok:
                leftovers.RunningNote(found.directory, found.sweep_id).remove()
        finally:
            if done or before is None:
                lock.release()
            else:
                lock.restore(before)
    reaped = dict(played.results.get("gpu_reap", {}))
    if as_json:
        click.echo(
            json.dumps({"ok": played.ok, "message": played.sentence, "simulated": target.simulated, "gpu_reap": reaped})
        )
    if not played.ok:
        raise TargetError(f"{playbook} on {target.title}: {played.sentence}")
    if not as_json:
        killed = [f"{item.get('pid')} {item.get('name')}" for item in reaped.get("killed") or []]
        done_text = "the server is stopped" if playbook == "stop" else "cleaned"
        ended = f"ended {', '.join(killed)}" if killed else "no process of it was left"
        Console().print(f"{target.title}: {done_text}, the GPUs are free; {ended}", markup=False, highlight=False)
    return Exit.OK


def _run(playbook: str, target: Target, folder: Path) -> PlaybookRun:
    with Interrupts(
        lambda: f"quit at once: {playbook} may be half done on {target.title}; run it again."
    ) as interrupts:
        return Playbooks(target).run(playbook, directory=folder, cancelled=lambda: interrupts.asked)
