"""Shows a sweep over a fleet: one line for what happens, beginning with the host. Always on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from controller.cli.progress import COLOURS, reused_words
from controller.sweep.ports import SilentWatcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from controller.plan import Cell, Plan


class FleetLines:
    """Writes lines about all hosts."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = 0
        self._left = 0

    def sweep_started(self, plan: Plan, pending: Sequence[Cell], reused: int) -> None:
        """Say what is going to run."""
        self._width, self._left = max(map(len, plan.hosts), default=0), len(pending)
        simulated = " (every figure is a simulated one)" if plan.simulated else ""
        count = "1 host" if len(plan.hosts) == 1 else f"{len(plan.hosts)} hosts"
        self.say(f"sweep {plan.sweep_id} on {count}: {escape(', '.join(plan.hosts))}{simulated}")
        names = ", ".join(arm.name for arm in plan.arms)
        self.say(
            f"{len(pending)} launches to do: {len(plan.arms)} arms ({escape(names)}) x {plan.blocks} blocks, "
            f"seed {plan.seed}; each block on one host"
        )
        if reused:
            self.say(reused_words(reused))

    def more_to_do(self, count: int) -> None:
        """Count launches that were not to be done before."""
        self._left += count

    def on(self, host: str) -> HostLines:
        """Return who writes about one host."""
        return HostLines(self, host)

    def note(self, text: str) -> None:
        """Say something important."""
        self.say(f"[yellow]note[/]      {escape(text)}")

    def about(self, host: str, text: str) -> None:
        """Write a line about a host; ``text`` may hold markup."""
        self.say(f"{escape(host):{self._width}}  {text}")

    def one_ended(self) -> int:
        """Count a launch that is not made again; return how many are left."""
        self._left = max(0, self._left - 1)
        return self._left

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._console.print(text, highlight=False, soft_wrap=True)


class HostLines(SilentWatcher):
    """Writes lines about one host. Phases are left out: with many hosts they would bury what matters."""

    def __init__(self, fleet: FleetLines, host: str) -> None:
        self._fleet = fleet
        self._host = host

    def cell_started(self, cell: Cell, position: int, total: int, attempt: int) -> None:
        """Say which launch begins."""
        again = f", attempt {attempt}" if attempt > 1 else ""
        self._fleet.about(
            self._host, f"launching block {cell.block}, {escape(cell.arm)} ({position} of {total} here{again})"
        )

    def cell_ended(self, cell: Cell, state: str, text: str, seconds: float) -> None:
        """Say how the launch ended, and how many are left."""
        detail = f": {escape(text)}" if text else ""
        left = f", {self._fleet.one_ended()} left" if state in ("done", "failed") else ""
        colour = COLOURS.get(state, "default")
        self._fleet.about(
            self._host, f"[{colour}]{state:9}[/] block {cell.block}, {escape(cell.arm)}, {seconds:.1f} s{left}{detail}"
        )

    def note(self, text: str) -> None:
        """Say something important about the host."""
        self._fleet.about(self._host, f"[yellow]note[/] {escape(text)}")
