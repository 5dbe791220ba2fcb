"""``rollback``: bring the settings of an earlier deployment back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console

from controller.cli.deployment_progress import deployment_watcher
from controller.cli.deployments import make_deployer, show_end
from controller.cli.options import debug_option, find_target, json_option, target_options

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("to", metavar="[ID|last]", default="last")
@click.option("--plain", is_flag=True, help="Plain lines instead of the live display.")
@target_options
@json_option
@debug_option
def rollback(to: str, inventory: Path | None, limit: str | None, *, plain: bool, as_json: bool) -> int:
    """Bring back what was served before, or the settings of deployment ID; restart the server and check its health.

    Without ID: what an unfinished or failed apply found, else the settings that served well before those of now. 0 is
    what the inventory held before the first apply. The draft model's patch and NCCL's variables are another matter:
    playbooks/rollback.yml takes those back.

    \b
    Examples:
      python -m controller rollback
      python -m controller rollback 3 -i inventory/production.yml
    """
    target = find_target(inventory, limit, create=True, alone=True)
    with deployment_watcher(Console(stderr=True), plain=plain or as_json, simulated=target.simulated) as shown:
        deployer = make_deployer(target, shown)
        end = deployer.rollback(to)
    show_end(end, target, as_json=as_json, more={"file": str(deployer.host_vars.path)})
    return int(end.exit_code)
