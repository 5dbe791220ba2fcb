"""``runbook``: the pages for the people on call, from wherever the controller is installed."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from controller.cli.options import debug_option
from controller.exits import Exit, InputError
from controller.paths import REPOSITORY

RUNBOOKS = REPOSITORY / "docs" / "runbooks"
INDEX = "README"


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in names() if name.startswith(incomplete)]


@click.command()
@click.argument("name", required=False, shell_complete=_complete)
@debug_option
def runbook(name: str | None) -> int:
    """Print a runbook: what a failure means, and what to do. Without NAME the list of them.

    \b
    Examples:
      python -m controller runbook
      python -m controller runbook draft-context
      python -m controller runbook docs/runbooks/draft-context.md

    NAME is the class that diagnose, a failed deployment or a failed cell names, or the path that stands beside it.
    """
    if name is None:
        width = max(map(len, names()), default=0)
        for each in names():
            click.echo(f"{each:{width}}  {title(each)}")
        return Exit.OK
    wanted = Path(name).stem
    if wanted not in names():
        raise InputError(f"there is no runbook {name!r}; call runbook without a name for the list.")
    text = (RUNBOOKS / f"{wanted}.md").read_text(encoding="utf-8")
    console = Console()
    if console.is_terminal:
        from rich.markdown import Markdown  # noqa: PLC0415 - only a terminal needs it

        console.print(Markdown(text))
    else:
        click.echo(text, nl=False)
    return Exit.OK


def names() -> list[str]:
    """Return the names of all runbooks."""
    return sorted(path.stem for path in RUNBOOKS.glob("*.md") if path.stem != INDEX)


def title(name: str) -> str:
    """Return what a runbook is about: its first heading."""
    first = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ")
