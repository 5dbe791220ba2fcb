"""Shows a running sweep: a live line on a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import time
from contextlib import contextmanager
from statistics import fmean
from typing import TYPE_CHECKING

from rich.live import Live
from rich.markup import escape
from rich.table import Table

from controller.launch_progress import LaunchProgress, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from controller.plan import Cell, Plan
    from controller.sweep.ports import Watcher

COLOURS = {"done": "green", "failed": "red", "abandoned": "yellow"}
QUIET_S = 60.0
"""A phase that lasts gets a line so often, so that a log of plain lines shows that something moves."""


def reused_words(count: int) -> str:
    """Return what a resumed sweep says about cells that are done already."""
    cells = "cell is" if count == 1 else "cells are"
    return f"{count} finished {cells} reused from the earlier run, not measured again"


class LineWatcher:
    """Writes one line for everything that happens; the base of the live display too."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._durations: list[float] = []
        self._position = 0
        self._total = 0
        self._blocks = 0
        self._simulated = False
        self.cell: Cell | None = None
        self.doing = ""
        self.started = time.monotonic()
        self._progress: LaunchProgress | None = None
        self._looked_at = self._said_at = 0.0

    def sweep_started(self, plan: Plan, pending: Sequence[Cell], reused: int) -> None:
        """Say what is going to run."""
        self._total, self._blocks, self._simulated = len(pending), plan.blocks, plan.simulated
        where = f"{plan.limit} (every figure is a simulated one)" if plan.simulated else plan.limit
        self.say(f"sweep {plan.sweep_id} on {where}")
        names = ", ".join(arm.name for arm in plan.arms)
        launches = "launch" if len(pending) == 1 else "launches"
        self.say(
            f"{len(pending)} {launches} to do: {len(plan.arms)} arms ({names}) x {plan.blocks} blocks, seed {plan.seed}"
        )
        if reused:
            self.say(reused_words(reused))

    def cell_started(self, cell: Cell, position: int, total: int, attempt: int) -> None:
        """Say which cell begins, and when the sweep may end."""
        self.cell, self._position, self._total, self.started = cell, position, total, time.monotonic()
        self.doing, self._progress = "launching", None
        again = f", attempt {attempt}" if attempt > 1 else ""
        self.step(f"{self.title()}{again}{self.remaining()}")

    def progress(self, progress: LaunchProgress) -> None:
        """Keep how far the launch is; say it when the same phase has been quiet for a minute."""
        before = self._progress
        if before is None or before.phase != progress.phase:
            self._progress, self._looked_at = progress, time.monotonic()
            return
        self._progress = before.at_later_look(progress)
        if time.monotonic() - self._said_at >= QUIET_S:
            self._say_phase()

    def phase(self, name: str) -> None:
        """Say which phase of its start the server entered, and how long it will probably take."""
        self.doing = name.replace("_", " ")
        if self._progress is not None and self._progress.phase != name:
            self._progress = None
        self._say_phase()

    def _say_phase(self) -> None:
        self._said_at = time.monotonic()
        self.step(f"  {self.doing}{self.how_far()}")

    def how_far(self) -> str:
        """Return how far the phase is, counted down since the last look; empty when that is not known."""
        return self._progress.words(time.monotonic() - self._looked_at) if self._progress else ""

    def measuring(self, text: str) -> None:
        """Say what is measured."""
        self.doing, self._progress = text, None
        self.step(f"  {text}")

    def tokens(self, count: int, seconds: float) -> None:
        """Keep the speed so far; a plain log does not need it."""

    def cell_ended(self, cell: Cell, state: str, text: str, seconds: float) -> None:
        """Say how the cell ended."""
        if state == "done":
            self._durations.append(seconds)
        self.cell = None
        colour = COLOURS.get(state, "default")
        detail = f": {escape(text)}" if text else ""
        self.say(f"[{colour}]{state:9}[/] block {cell.block}, {cell.arm}, {seconds:.1f} s{detail}")

    def note(self, text: str) -> None:
        """Say something important."""
        self.say(f"[yellow]note[/]      {escape(text)}")

    def title(self) -> str:
        """Return which cell is at work."""
        if self.cell is None:
            return ""
        which = f"block {self.cell.block} of {self._blocks}"
        if self.cell.confirmation:
            which = f"confirming block {self.cell.block}"
        elif self.cell.block > self._blocks:
            which = f"added block {self.cell.block}"
        return f"cell {self._position}/{self._total}, {which}, arm {self.cell.arm}"

    def remaining(self) -> str:
        """Return the time that the remaining cells will probably take, from those that are done."""
        if not self._durations:
            return ""
        seconds = fmean(self._durations) * (self._total - self._position + 1)
        return f", about {duration(seconds)} left"

    def step(self, text: str) -> None:
        """Write a line about the cell at work."""
        self.say(text)

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._console.print(text, highlight=False, soft_wrap=True)


class LiveWatcher(LineWatcher):
    """Keeps one line up to date for the cell at work; only what stays true is written above it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._speed = ""
        self.live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def cell_started(self, cell: Cell, position: int, total: int, attempt: int) -> None:
        """Begin a new line."""
        self._speed = ""
        super().cell_started(cell, position, total, attempt)

    def measuring(self, text: str) -> None:
        """Show what is measured; the speed begins anew."""
        self._speed = ""
        super().measuring(text)

    def tokens(self, count: int, seconds: float) -> None:
        """Show the speed so far."""
        if seconds > 0:
            simulated = " (simulated)" if self._simulated else ""
            self._speed = f"{count / seconds:.0f} tok/s so far{simulated}"

    def step(self, text: str) -> None:
        """Nothing: the live line shows it."""

    def _render(self) -> Table:
        line = Table.grid(padding=(0, 2))
        if self.cell is not None:
            seconds = f"{time.monotonic() - self.started:.0f} s"
            left = self.remaining().lstrip(", ")
            line.add_row(
                f"[bold]{escape(self.title())}[/]",
                escape(self.doing + self.how_far()),
                seconds,
                self._speed,
                f"{left} in all" if left else "",
            )
        return line


@contextmanager
def make_watcher(console: Console, *, plain: bool) -> Iterator[Watcher]:
    """Yield the watcher that fits the terminal."""
    if plain or not console.is_terminal:
        yield LineWatcher(console)
        return
    watcher = LiveWatcher(console)
    with watcher.live:
        yield watcher
