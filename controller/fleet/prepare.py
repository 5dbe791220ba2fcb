"""Makes a sweep over a fleet ready to run: a new one from options, or a resumed one from its directory."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.exits import InputError
from controller.fleet.coordinator import FleetSweep
from controller.fleet.host import AnsibleHost
from controller.fleet.leases import Alone
from controller.keys import read_keys
from controller.lock import node_key
from controller.paths import display
from controller.sweep.prepare import describe, frozen_workload, write_sweep
from controller.sweep.results import read_sweep
from controller.sweep.state import SweepState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from controller.fleet.ports import FleetWatcher, Leases
    from controller.inventory import Target
    from controller.load.workload import Workload
    from controller.plan import Plan


@dataclass(frozen=True, slots=True)
class FleetContext:
    """Where a sweep is kept, the hosts it runs on, who watches, and the words it was started with."""

    directory: Path
    targets: Sequence[Target]
    watcher: FleetWatcher
    leave_running: bool = False
    accept_changes: bool = False
    arguments: Sequence[str] = ()


def fleet_plan(plan: Plan, targets: Sequence[Target]) -> Plan:
    """Return a plan, made for the first host, for all of them.

    Raises:
        InputError: simulated and real hosts are mixed, or two names mean the same machine.
    """
    if len({target.simulated for target in targets}) > 1:
        raise InputError("--hosts names simulated and real hosts; their figures cannot be mixed.")
    keys: dict[str, str] = {}
    for target in targets:
        other = keys.setdefault(node_key(target.lock_identity), target.host)
        if other != target.host:
            raise InputError(f"--hosts: {other} and {target.host} are the same machine (address, container, node).")
    names = tuple(target.host for target in targets)
    return dataclasses.replace(plan, limit=",".join(names), hosts=names)


def new_fleet_sweep(plan: Plan, workload: Workload, context: FleetContext, leases: Leases | None = None) -> FleetSweep:
    """Write the sweep directory and return the sweep.

    Raises:
        InputError: the directory holds a sweep already.
        JournalError: it cannot be written.
    """
    write_sweep(plan, workload, context.directory)
    return _fleet_sweep(plan, workload, SweepState(), context, leases)


def resumed_fleet_sweep(context: FleetContext, leases: Leases | None = None) -> FleetSweep:
    """Return a sweep that goes on where its journal ends, on the hosts that are given now.

    Raises:
        InputError: there is no sweep to resume, or its prompts are no longer those it began with.
    """
    plan, state = read_sweep(context.directory)
    simulated = context.targets[0].simulated
    if not plan.hosts:
        raise InputError(f"the sweep in {display(context.directory)} measured one host; resume it without --hosts.")
    if simulated != plan.simulated:
        raise InputError(
            f"the sweep in {display(context.directory)} measured {'simulated' if plan.simulated else 'real'} hosts; "
            "figures of the other kind are not mixed with them."
        )
    return _fleet_sweep(plan, frozen_workload(plan, context.directory), state, context, leases)


def _fleet_sweep(
    plan: Plan, workload: Workload, state: SweepState, context: FleetContext, leases: Leases | None
) -> FleetSweep:
    names = ", ".join(target.title for target in context.targets)
    return FleetSweep(
        plan=plan,
        directory=context.directory,
        state=state,
        runners=_runners(plan, workload, state, context),
        watcher=context.watcher,
        leases=leases or Alone(),
        accept_changes=context.accept_changes,
        header=describe(context.arguments, names),
    )


def _runners(plan: Plan, workload: Workload, state: SweepState, context: FleetContext) -> Mapping[str, AnsibleHost]:
    runners = {}
    for target in context.targets:
        found = state.host(target.host)
        runners[target.host] = AnsibleHost(
            plan=plan,
            directory=context.directory,
            target=target,
            workload=workload,
            api_key=read_keys(target).api_key,
            found=found,
            last_attempt=state.cell(found.last_launch_cell).attempt if found.last_launch_cell else 0,
            leave_running=context.leave_running,
            accept_changes=context.accept_changes,
        )
    return runners
