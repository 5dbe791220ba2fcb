"""``sweep`` and ``plan``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from controller.cli.fleet import FleetRequest, check_sharing, fleet_hosts, fleet_options, fleet_targets, run_fleet
from controller.cli.options import debug_option, find_target, inventory_of, json_option, target_options
from controller.cli.plan_options import plan_options, read_options
from controller.exits import Exit, InputError
from controller.paths import REPOSITORY, default_sweep_directory, display
from controller.plan import Plan
from controller.sweep.files import PLAN
from controller.sweep.settings import PREPARING, draft_model, extra_vars

if TYPE_CHECKING:
    from controller.inventory import Target
    from controller.sweep.options import Options


@click.command()
@plan_options
@target_options
@fleet_options
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path), help="Where the sweep is kept  [default: sweeps/<UTC time>]"
)
@click.option(
    "--resume", type=click.Path(path_type=Path), metavar="DIR", help="Go on with a sweep: finished cells are kept."
)
@click.option(
    "--accept-changes",
    is_flag=True,
    help="Resume although the configuration changed, or mix hosts that differ; the report will say so.",
)
@click.option("--leave-running", is_flag=True, help="Leave the last server running.")
@click.option("--keep-going", is_flag=True, hidden=True, help="The default: a failed cell does not end the sweep.")
@click.option("--plain", is_flag=True, help="Plain lines instead of the live display.")
@click.option(
    "--no-report", is_flag=True, help="Do not write report.html and the other files of the report at the end."
)
@click.option("--dry-run", is_flag=True, help="Only print the plan, as the command plan does.")
@json_option
@debug_option
def sweep(
    inventory: Path | None,
    limit: str | None,
    hosts: str | None,
    directory: Path | None,
    resume: Path | None,
    *,
    shared_plan: str | None,
    join: str | None,
    accept_changes: bool,
    leave_running: bool,
    keep_going: bool,
    plain: bool,
    no_report: bool,
    dry_run: bool,
    as_json: bool,
    **plan_arguments: Any,  # noqa: ANN401 - what click read, checked in read_options
) -> int:
    """Launch every arm once per block, measure each launch, and say whether speculation pays.

    \b
    Examples:
      python -m controller sweep --steps 2,3
      python -m controller sweep --steps 1,2,3 --adaptive --blocks 5 -i inventory/production.yml
      python -m controller sweep --steps 3 --arm tree=steps:3,NCCL_ALGO:Tree
      python -m controller sweep --steps 2,3 --max-blocks 12 --budget 4h -i inventory/production.yml
      python -m controller sweep --aa -i inventory/production.yml
      python -m controller sweep --resume sweeps/20260101T120000Z

    One block is one launch of every arm, in an order that is random and balanced over blocks. When an arm pays, winner
    and baseline are launched again on fresh launches. A failed cell does not end the sweep; Ctrl-C stops the
    server and the sweep can be resumed. At the end the report is written beside what was measured, report.html first.
    Exit codes: 0 done, 1 a cell failed, 2 bad input, 3 target or Ansible failed, 4 locked, 5 interrupted, 6 journal not
    writable.
    """
    del keep_going
    if accept_changes and resume is None and hosts is None:
        raise InputError("--accept-changes goes with --resume: a new sweep has nothing that could have changed.")
    if resume is not None:
        _refuse_with_resume(directory, plan_arguments)
    hosts = fleet_hosts(hosts, resume, limit)
    check_sharing(hosts, shared_plan, join, resume)
    fleet = (
        FleetRequest(hosts, inventory, directory, resume, leave_running, accept_changes, shared_plan, join)
        if hosts
        else None
    )
    if resume is not None and fleet is None:
        inventory, limit = _resumed_target(resume, inventory, limit)
    options = None if resume is not None or join is not None else read_options(plan_arguments)
    if dry_run:
        if options is None:
            raise InputError("--dry-run and --resume do not go together; report shows what is done and what is left.")
        target = fleet_targets(fleet)[0] if fleet else find_target(inventory, limit, create=False, alone=True)
        return _show_plan(options, target, as_json=as_json)
    if fleet is not None:
        folder, end = run_fleet(fleet, options, Console(stderr=True))
    else:
        from controller.cli.progress import make_watcher  # noqa: PLC0415 - a dry run shows no progress
        from controller.sweep.prepare import Context, new_plan, new_sweep, resumed_sweep  # noqa: PLC0415 - nor launches

        target = find_target(inventory, limit, create=True, alone=True)
        folder = resume or directory or default_sweep_directory()
        with make_watcher(Console(stderr=True), plain=plain or as_json) as watcher:
            context = Context(
                folder,
                target,
                watcher,
                leave_running=leave_running,
                accept_changes=accept_changes,
                arguments=sys.argv[1:],
            )
            one = resumed_sweep(context) if options is None else new_sweep(*new_plan(options, target), context)
            end = one.run()
    from controller.cli.show import show_sweep  # noqa: PLC0415 - the analysis is only needed at the end

    try:
        show_sweep(folder, as_json=as_json, sentences=end.sentences, exit_code=end.exit_code)
    finally:  # whoever read our output may have gone
        if not no_report:
            from controller.cli.keep_report import keep_report  # noqa: PLC0415

            click.echo(keep_report(folder), err=True)
    return int(end.exit_code)


@click.command()
@plan_options
@target_options
@json_option
@debug_option
def plan(
    inventory: Path | None,
    limit: str | None,
    *,
    as_json: bool,
    **plan_arguments: Any,  # noqa: ANN401 - what click read, checked in read_options
) -> int:
    """Print every cell of a sweep and the exact commands, ready to copy. Nothing is started."""
    target = find_target(inventory, limit, create=False, alone=True)
    return _show_plan(read_options(plan_arguments), target, as_json=as_json)


def _refuse_with_resume(directory: Path | None, arguments: dict[str, Any]) -> None:
    """A resumed sweep keeps its plan; an option that would change it is a misunderstanding worth an error."""
    context = click.get_current_context()
    singular = {"extra_arms": "--arm", "arms_files": "--arms-file"}
    given = [
        singular.get(name, f"--{name.replace('_', '-')}")
        for name in arguments
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    ]
    if directory is not None:
        given.append("--dir")
    if given:
        raise InputError(f"--resume goes on with the plan as it is; leave out {', '.join(given)}.")


def _resumed_target(resume: Path, inventory: Path | None, limit: str | None) -> tuple[Path | None, str | None]:
    """Return the inventory and the host that the sweep was started with, unless others are given."""
    if not resume.is_dir():
        raise InputError(f"--resume {resume}: there is no such directory.")
    old = Plan.read(resume / PLAN)
    return inventory_of(old, inventory), limit or old.limit


def _show_plan(options: Options, target: Target, *, as_json: bool) -> int:
    from controller.playbooks import Playbooks  # noqa: PLC0415 - help and completion are answered without them
    from controller.sweep.prepare import new_plan  # noqa: PLC0415

    decided, _ = new_plan(options, target)
    playbooks = Playbooks(target)
    cells = [
        {
            "cell": cell.cell_id,
            "block": cell.block,
            "order": cell.order,
            "arm": cell.arm,
            "command": playbooks.command("restart", extra_vars(decided, cell, 1, target.variables)),
        }
        for cell in decided.cells
    ]
    preparing: dict[str, str] = {}
    for cell in decided.cells:
        values = extra_vars(decided, cell, 1, target.variables)
        preparing.setdefault(draft_model(values), playbooks.command("deploy", values, PREPARING))
    stop = playbooks.command("stop", {})
    if as_json:
        click.echo(
            json.dumps(
                {"plan": decided.as_json(), "prepare": list(preparing.values()), "cells": cells, "stop": stop}, indent=2
            )
        )
        return Exit.OK
    click.echo(
        f"# {len(cells)} launches on {target.title}: {len(decided.arms)} arms x {decided.blocks} blocks, "
        f"seed {decided.seed}"
    )
    click.echo(f"# run in {display(REPOSITORY)}")
    for command in preparing.values():
        click.echo(f"\n# once, before its first launch: check the draft model, set NCCL's variables\n{command}")
    for number, row in enumerate(cells, start=1):
        click.echo(f"\n# cell {number} of {len(cells)}: block {row['block']}, arm {row['arm']}\n{row['command']}")
    click.echo(f"\n# at the end\n{stop}")
    return Exit.OK
