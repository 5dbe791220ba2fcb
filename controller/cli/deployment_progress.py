"""Shows a deployment as a sweep is shown: a live line on a terminal, plain lines elsewhere. On standard error."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from controller.apply.ports import DeploymentWatcher

COLOURS = {"applied": "green", "rolled back": "yellow", "failed": "red"}


class DeploymentLines:
    """Writes one line for everything that happens."""

    def __init__(self, console: Console, *, simulated: bool) -> None:
        self._console = console
        self._simulated = " (simulated)" if simulated else ""
        self.title = ""
        self.doing = ""
        self.started = time.monotonic()

    def began(self, title: str) -> None:
        """Say what is deployed."""
        self.title, self.started = title, time.monotonic()
        self.say(escape(f"{title}{self._simulated}"))

    def step(self, text: str) -> None:
        """Say what is done next."""
        self.doing = text
        self.passing(text)

    def phase(self, name: str) -> None:
        """Say which phase of its start the server entered."""
        self.step(name.replace("_", " "))

    def tokens(self, count: int, seconds: float) -> None:
        """Keep the speed so far; a plain log does not need it."""

    def note(self, text: str) -> None:
        """Say something important."""
        self.say(f"[yellow]note[/]      {escape(text)}")

    def ended(self, state: str, text: str) -> None:
        """Say how it ended."""
        seconds = time.monotonic() - self.started
        title, self.title = self.title, ""
        detail = f": {escape(text)}" if text != title else ""
        self.say(f"[{COLOURS.get(state, 'default')}]{state:11}[/] {escape(title)}, {seconds:.1f} s{detail}")

    def passing(self, text: str) -> None:
        """Write what will be over soon."""
        self.say(f"  {escape(text)}")

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._console.print(text, highlight=False, soft_wrap=True)


class DeploymentLive(DeploymentLines):
    """Keeps one line up to date; only what stays true is written above it."""

    def __init__(self, console: Console, *, simulated: bool) -> None:
        super().__init__(console, simulated=simulated)
        self._speed = ""
        self.live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def step(self, text: str) -> None:
        """Show what is done; the speed begins anew."""
        self._speed = ""
        super().step(text)

    def tokens(self, count: int, seconds: float) -> None:
        """Show the speed so far."""
        if seconds > 0:
            self._speed = f"{count / seconds:.0f} tok/s so far{self._simulated}"

    def passing(self, text: str) -> None:
        """Nothing: the live line shows it."""

    def _render(self) -> Table:
        line = Table.grid(padding=(0, 2))
        if self.title:
            seconds = f"{time.monotonic() - self.started:.0f} s"
            line.add_row(f"[bold]{escape(self.title)}[/]", escape(self.doing), seconds, self._speed)
        return line


@contextmanager
def deployment_watcher(console: Console, *, plain: bool, simulated: bool) -> Iterator[DeploymentWatcher]:
    """Yield the watcher that fits the terminal."""
    if plain or not console.is_terminal:
        yield DeploymentLines(console, simulated=simulated)
        return
    watcher = DeploymentLive(console, simulated=simulated)
    with watcher.live:
        yield watcher
