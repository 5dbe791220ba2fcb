"""``sweep --hosts``: one sweep over several hosts, from the options to its end."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from controller.cli.options import inventory_of
from controller.exits import InputError
from controller.inventory import Target, default_inventory, read_fleet, refuse_several_machines
from controller.paths import default_sweep_directory
from controller.plan import Plan
from controller.sweep.files import PLAN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console

    from controller.sweep.ending import SweepEnd
    from controller.sweep.options import Options

FLEET_OPTIONS = (
    click.option(
        "--hosts",
        metavar="GROUP",
        help="Share the blocks among these identical hosts: a group of the inventory, or names with commas between.",
    ),
    click.option(
        "--shared-plan",
        metavar="URL",
        help="With --hosts: share the blocks with other controllers through this PostgreSQL (no password in the URL).",
    ),
    click.option(
        "--join", metavar="SWEEP", help="Take part in a sweep that another controller put into the shared plan."
    ),
)


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """What ``sweep`` was asked for, as far as it concerns a fleet."""

    hosts: str
    inventory: Path | None
    directory: Path | None
    resume: Path | None
    leave_running: bool = False
    accept_changes: bool = False
    shared_plan: str | None = None
    join: str | None = None


def fleet_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a sweep over a fleet."""
    for option in reversed(FLEET_OPTIONS):
        function = option(function)
    return function


def fleet_hosts(hosts: str | None, resume: Path | None, limit: str | None) -> str | None:
    """Return the hosts of a sweep over a fleet: given, or those it began with; None for a sweep of one host.

    Raises:
        InputError: ``--hosts`` and ``--limit`` are given together.
    """
    if hosts is not None and limit is not None:
        raise InputError("--hosts says where to measure, and so does --limit; give one of them.")
    if hosts is None and resume is not None and (resume / PLAN).is_file():
        return ",".join(Plan.read(resume / PLAN).hosts) or None
    return hosts


def check_sharing(hosts: str | None, shared_plan: str | None, join: str | None, resume: Path | None) -> None:
    """Refuse combinations that make no sense.

    Raises:
        InputError: an option lacks the one that it belongs to.
    """
    if join is not None and shared_plan is None:
        raise InputError("--join names a sweep of a shared plan; give --shared-plan too.")
    if join is not None and resume is not None:
        raise InputError("--resume goes on with a sweep that has joined already; leave out --join.")
    if shared_plan is not None and hosts is None:
        raise InputError("--shared-plan shares blocks between controllers; say with --hosts which hosts are yours.")


def fleet_targets(request: FleetRequest) -> list[Target]:
    """Return the hosts; a resumed sweep reads the inventory that it began with unless another is given.

    Raises:
        InputError: the inventory is no good, or a host runs its model together with others.
    """
    inventory = request.inventory
    if request.resume is not None:
        inventory = inventory_of(Plan.read(request.resume / PLAN), inventory)
    if inventory is None:
        from controller.cli.simulated import ensure_node  # noqa: PLC0415 - only the simulated default needs it

        ensure_node()
    targets = read_fleet(inventory or default_inventory(), request.hosts)
    refuse_several_machines(targets)
    return targets


def run_fleet(request: FleetRequest, options: Options | None, console: Console) -> tuple[Path, SweepEnd]:
    """Run the sweep; return its directory and how it ended.

    Args:
        request: Hosts and directories.
        options: What decides a new plan; None to resume.
        console: For progress.
    """
    from controller.cli.fleet_progress import FleetLines  # noqa: PLC0415 - a sweep of one host needs none of it
    from controller.fleet.database import check_url  # noqa: PLC0415
    from controller.fleet.prepare import (  # noqa: PLC0415
        FleetContext,
        Sharing,
        fleet_plan,
        joined_fleet_sweep,
        new_fleet_sweep,
        resumed_fleet_sweep,
    )
    from controller.sweep.prepare import new_plan  # noqa: PLC0415

    targets = fleet_targets(request)
    folder = request.resume or request.directory or default_sweep_directory()
    context = FleetContext(
        folder,
        targets,
        FleetLines(console),
        leave_running=request.leave_running,
        accept_changes=request.accept_changes,
        arguments=sys.argv[1:],
    )
    sharing = Sharing(check_url(request.shared_plan)) if request.shared_plan else None
    if request.resume is not None:
        return folder, resumed_fleet_sweep(context, sharing).run()
    if request.join is not None and sharing is not None:
        return folder, joined_fleet_sweep(context, sharing, request.join).run()
    assert options is not None  # noqa: S101 - only a sweep that is resumed or joined has none
    if options.aa:
        raise InputError("--aa measures the noise floor of one host; choose it with --limit instead of --hosts.")
    plan, workload = new_plan(sharing.options(options) if sharing else options, targets[0])
    return folder, new_fleet_sweep(fleet_plan(plan, targets), workload, context, sharing).run()
