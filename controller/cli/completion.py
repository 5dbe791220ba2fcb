"""``completion``: the script with which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from controller.cli import COMPLETION_VARIABLE, PROGRAM
from controller.exits import Exit

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the script with which SHELL completes commands, options and their values.

    \b
    Examples:
      eval "$(controller completion bash)"                                    now, or in ~/.bashrc
      controller completion zsh > "${fpath[1]}/_controller"
      controller completion fish > ~/.config/fish/completions/controller.fish

    It completes the program controller, which pip installs; python -m controller is not completed.
    """
    from controller.cli.app import cli  # noqa: PLC0415 - this command is part of that group

    found = get_completion_class(shell)
    if found is None:  # pragma: no cover - the choices above are click's own
        raise click.UsageError(f"click knows no completion for {shell}.")
    click.echo(found(cli, {}, PROGRAM, COMPLETION_VARIABLE).source())
    return Exit.OK
