"""The page of the command line, from the commands themselves."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click

from controller.cli.app import cli
from controller.exits import MEANINGS
from tools.site.markdown import code, escaped, table

if TYPE_CHECKING:
    from collections.abc import Iterator

INTRODUCTION = """\
Made from the program itself; `controller COMMAND --help` says the same. Without an installed package it is
`python -m controller`, in a checkout also `./run controller`. A shell completes commands, options and values after
`eval "$(controller completion bash)"`."""
_KEEPS_LINES = "\b"


def page() -> str:
    """Return the Markdown of the page: every command with its options."""
    parts = [
        "# Commands",
        INTRODUCTION,
        "## Exit codes",
        table(("code", "meaning"), [(str(int(number)), meaning) for number, meaning in MEANINGS.items()]),
        *(_section(path, command, context) for path, command, context in commands()),
    ]
    return "\n\n".join(parts) + "\n"


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield every command that is not a group, with the words that call it."""
    yield from _below("controller", cli, click.Context(cli, info_name="controller"))


def _below(
    path: str, command: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    if not isinstance(command, click.Group):
        yield path, command, context
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None and not below.hidden:
            yield from _below(f"{path} {name}", below, click.Context(below, info_name=name, parent=context))


def _section(path: str, command: click.Command, context: click.Context) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {path.removeprefix('controller ')}", f"```text\n{path} {usage}\n```", _text(command.help or "")]
    rows = [
        (code(record[0]), escaped(record[1]))
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) is not None
    ]
    return "\n\n".join([*parts, table(("option", "meaning"), rows)])


def _text(help_text: str) -> str:
    """Return a help text as Markdown; a paragraph that click leaves as it is keeps its lines here too."""
    shown = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(help_text).partition("\f")[0]):
        if paragraph.startswith(_KEEPS_LINES):
            lines = paragraph.removeprefix(_KEEPS_LINES).strip("\n")
            shown.append(f"```text\n{lines}\n```")
        else:
            shown.append(escaped(" ".join(paragraph.split())))
    return "\n\n".join(shown)
