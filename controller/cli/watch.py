"""``watch``: the server on one screen, live. Changes nothing."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from controller.cli.options import debug_option, find_target, json_option, target_options
from controller.exits import Exit, InputError, TargetError
from controller.keys import read_keys
from controller.playbooks import Playbooks
from controller.watch import words
from controller.watch.state import Condition, Watched
from controller.watch.watcher import GPU_EVERY_S, Pace, Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.inventory import Target

LIVE_S, LINES_S = 1.0, 10.0
ONCE_PATIENCE_S = 30.0
ESCAPE = "\x1b"


@click.command()
@target_options
@click.option("--once", is_flag=True, help="Look once, print, and end.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.2),
    help="Seconds between two looks at the server, and between two lines  [default: 1 on a terminal, 10 elsewhere]",
)
@click.option(
    "--gpus-every",
    "gpus_s",
    type=click.FloatRange(min=1),
    default=GPU_EVERY_S,
    show_default=True,
    help="Seconds between two looks at the GPUs.",
)
@json_option
@debug_option
def watch(
    inventory: Path | None, limit: str | None, *, once: bool, every_s: float | None, gpus_s: float, as_json: bool
) -> int:
    """Show the server live: phase, speed, acceptance length L, cycle time, requests, GPU memory, power, launch.

    On a terminal one screen with keys (l log, d diagnosis, q quit); elsewhere a line every few seconds. A server that
    is down, starting or dead is shown as such and watched until it comes back. The exit code is 0 whatever was seen.

    \b
    Examples:
      python -m controller watch -i inventory/production.yml
      python -m controller watch -i inventory/production.yml --once --json
    """
    if as_json and not once:
        raise InputError("--json belongs to --once: a live view is no document.")
    target = find_target(inventory, limit, create=True)
    live = not once and sys.stdin.isatty() and sys.stdout.isatty()
    pace = Pace(server_s=every_s or (LIVE_S if live else LINES_S), gpus_s=gpus_s)
    with _watcher(target, pace) as watcher:
        if once:
            return _once(watcher, target, as_json=as_json)
        try:
            if live:
                _live(watcher, target)
            else:
                _lines(watcher, target, pace.server_s)
        except KeyboardInterrupt:
            pass  # the usual way to stop looking
    return Exit.OK


@contextmanager
def _watcher(target: Target, pace: Pace) -> Iterator[Watcher]:
    with tempfile.TemporaryDirectory(prefix="controller-") as folder:
        watched = Watched(simulated=target.simulated)
        watcher = Watcher(watched, Playbooks(target), Path(folder), read_keys(target).api_key, pace)
        try:
            yield watcher
        finally:
            watcher.close()


def _once(watcher: Watcher, target: Target, *, as_json: bool) -> int:
    watcher.look_once(ONCE_PATIENCE_S)
    watched = watcher.watched
    if watched.condition is Condition.UNREACHABLE:
        raise TargetError(f"{target.title}: {' '.join(watched.sentences)}")
    now = time.monotonic()
    if as_json:
        click.echo(json.dumps(words.document(watched, target.host, now), indent=2))
        return Exit.OK
    click.echo(f"{target.title}: {words.headline(watched)}")
    for name, value in words.rows(watched, now):
        click.echo(f"{name:12}{value}")
    for sentence in watched.sentences:
        click.echo(f"! {sentence}")
    return Exit.OK


def _lines(watcher: Watcher, target: Target, every_s: float) -> None:
    while True:
        watcher.turn(every_s)
        click.echo(words.line(watcher.watched, target.title, datetime.now().astimezone(), time.monotonic()))


def _live(watcher: Watcher, target: Target) -> None:
    from rich.console import Console  # noqa: PLC0415 - lines and JSON do without
    from rich.live import Live  # noqa: PLC0415

    from controller.watch.keyboard import keys  # noqa: PLC0415
    from controller.watch.screen import Pane, draw  # noqa: PLC0415

    panes = {"l": Pane.LOG, "d": Pane.DIAGNOSIS, ESCAPE: Pane.FIGURES}
    pane = Pane.FIGURES
    console = Console()
    with (
        keys(sys.stdin.fileno(), watcher.put),
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as screen,
    ):
        while True:
            now, moment = time.monotonic(), datetime.now().astimezone()
            screen.update(
                draw(watcher.watched, target.title, pane, height=console.height, now=now, moment=moment), refresh=True
            )
            for key in watcher.turn(LIVE_S):
                if key == "q":
                    return
                # The same key again leads back.
                pane = Pane.FIGURES if panes.get(key) is pane else panes.get(key, pane)
