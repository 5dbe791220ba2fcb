"""The live view: one screen, drawn anew at most once a second."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from controller.watch import words
from controller.watch.state import Condition

if TYPE_CHECKING:
    import datetime as dt

    from rich.console import RenderableType

    from controller.watch.state import Watched

HELP = "l log   d diagnosis   q quit"
HELP_INSIDE = "esc back   l log   d diagnosis   q quit"
STYLES = {
    Condition.SERVING: "bold green",
    Condition.STARTING: "bold yellow",
    Condition.ASKING: "dim",
    Condition.ABSENT: "bold",
}
FIXED_LINES = 4
"""Title, two empty lines, help."""


class Pane(enum.Enum):
    """What the screen shows."""

    FIGURES = "figures"
    LOG = "log"
    DIAGNOSIS = "diagnosis"


def draw(watched: Watched, title: str, pane: Pane, *, height: int, now: float, moment: dt.datetime) -> RenderableType:
    """Return the screen.

    Args:
        watched: what is known.
        title: the target.
        pane: what to show below the title.
        height: lines of the terminal.
        now: monotonic seconds.
        moment: wall time, for the clock.
    """
    head = Text.assemble(
        (title, "bold"),
        "  ",
        (words.headline(watched), STYLES.get(watched.condition, "bold red")),
        ("  every figure is simulated" if watched.simulated else "", "magenta"),
        (f"  {moment:%H:%M:%S}", "dim"),
        overflow="ellipsis",
        no_wrap=True,
    )
    body: RenderableType
    if pane is Pane.LOG:
        body = _log(watched, height - FIXED_LINES)
    elif pane is Pane.DIAGNOSIS:
        body = _table(watched.log.diagnosis())
    else:
        body = Group(_table(words.rows(watched, now)), *(Text(f"! {line}", "yellow") for line in watched.sentences))
    keys = HELP if pane is Pane.FIGURES else HELP_INSIDE
    return Group(head, Text(), body, Text(), Text(keys, "dim"))


def _table(pairs: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, Text(value))
    return table


def _log(watched: Watched, lines: int) -> RenderableType:
    found = watched.log.tail(max(1, lines))
    if not found:
        return Text("no line of the log has arrived", "dim")
    return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in found))
