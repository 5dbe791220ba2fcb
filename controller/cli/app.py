"""The command group. Commands are imported when they are used, so that ``--help`` answers at once."""

from __future__ import annotations

import importlib

import click

import controller
from controller.exits import MEANINGS

COMMANDS = {
    "sweep": ("controller.cli.sweep:sweep", "Measure arms on fresh launches and say whether speculation pays."),
    "plan": ("controller.cli.sweep:plan", "Print every cell of a sweep and the commands it would run."),
    "report": ("controller.cli.report:report", "Show a sweep again, and write it as HTML, CSV and figures."),
    "compare": ("controller.cli.compare:compare", "Say what changed from one sweep to another, arm by arm."),
    "apply": ("controller.cli.apply:apply", "Deploy what a sweep recommends, prove it, take it back if it fails."),
    "history": ("controller.cli.history:history", "List what was deployed on a node, and how it ended."),
    "rollback": ("controller.cli.rollback:rollback", "Bring back the settings of an earlier deployment."),
    "breakeven": ("controller.cli.breakeven:breakeven", "Say how many tokens a cycle must accept to pay."),
    "doctor": ("controller.cli.doctor:doctor", "Ask what would make a launch fail, before it is tried."),
    "status": ("controller.cli.status:status", "Show the server, who holds the node, and sweeps that died."),
    "watch": ("controller.cli.watch:watch", "Watch the server live: speed, acceptance, GPUs, log."),
    "diagnose": ("controller.cli.diagnose:diagnose", "Say from a log why a launch failed and what to do."),
    "runbook": ("controller.cli.runbook:runbook", "Print what a failure means and what to do about it."),
    "stop": ("controller.cli.node:stop", "Stop the server and free the GPUs."),
    "clean": ("controller.cli.node:clean", "End leftover GPU processes of the node, and only those."),
    "completion": ("controller.cli.completion:completion", "Print the completion script of a shell."),
    "simulator": ("controller.simulator.command:simulator", "Create and run a simulated node (no GPU needed)."),
}

EXAMPLES = """\
\b
Examples:
  python -m controller sweep --steps 2,3              on the simulated node: nothing to install
  python -m controller plan --steps 2,3 -i inventory/production.yml
  python -m controller sweep --steps 2,3 --blocks 5 -i inventory/production.yml
  python -m controller sweep --resume sweeps/20260101T120000Z
  python -m controller report sweeps/20260101T120000Z --json
  python -m controller apply sweeps/20260101T120000Z
  python -m controller breakeven --decode-ms 12 --cycle-ms 30
"""


class LazyGroup(click.Group):
    """A group that knows names and one-line helps, and imports a command only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them, then the exit codes."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), meaning) for code, meaning in MEANINGS.items()])


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"controller {controller.__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=EXAMPLES,
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def cli() -> None:
    """Find out with evidence whether EAGLE-3 speculative decoding pays on your machine, and at how many steps.

    A sweep launches the server once for each arm and block through Ansible, sends the same prompts to each launch and
    compares. Without --inventory everything runs on a simulated node and every figure is a simulated one.
    """
