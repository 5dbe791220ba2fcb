"""Makes a sweep over a fleet ready to run: a new one from options, or a resumed one from its directory."""

from __future__ import annotations

import dataclasses
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from controller.exits import InputError
from controller.fleet.coordinator import FleetSweep
from controller.fleet.host import AnsibleHost
from controller.fleet.leases import Alone
from controller.lock import node_key
from controller.paths import display
from controller.sweep.files import PROMPTS
from controller.sweep.noise import known as known_noise
from controller.sweep.prepare import GIVEN_NOISE, describe, frozen_workload, write_sweep
from controller.sweep.results import read_sweep
from controller.sweep.state import SweepState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.fleet.ports import FleetWatcher, Leases
    from controller.inventory import Target
    from controller.load.workload import Workload
    from controller.plan import Plan
    from controller.sweep.options import Options


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
    """Return a plan, made for the first host, for all of them; the noise floor is the largest that is known of them.

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
    plan = dataclasses.replace(plan, limit=",".join(names), hosts=names)
    noises = [noise for target in targets if (noise := known_noise(target))]
    if plan.aa_source == GIVEN_NOISE or not noises:
        return plan
    worst = max(noises, key=lambda noise: noise.noise)
    return dataclasses.replace(plan, aa_noise=worst.noise, aa_source=f"{worst.node}: {worst.source}")


@dataclass(frozen=True, slots=True)
class Sharing:
    """The shared plan that a sweep takes part in."""

    url: str

    def options(self, options: Options) -> Options:
        """Return what decides a plan that is shared: all of it now, as no controller has all figures to add to it.

        Raises:
            InputError: the stop rule was asked for.
        """
        if options.max_blocks is not None or options.budget_s is not None:
            raise InputError(
                "--max-blocks and --budget look at all figures, which no controller of a shared plan has; leave them "
                "out, put the directories together with report, and look then."
            )
        return dataclasses.replace(options, confirm_blocks=0)

    def leases(self, plan: Plan, holder: str) -> Leases:
        """Return the leases of one controller.

        Raises:
            TargetError: the database cannot be used.
        """
        from controller.fleet.shared_leases import SharedLeases  # noqa: PLC0415 - psycopg is an optional extra

        return SharedLeases(self.url, plan.sweep_id, holder)


def new_fleet_sweep(
    plan: Plan, workload: Workload, context: FleetContext, sharing: Sharing | None = None
) -> FleetSweep:
    """Write the sweep directory and return the sweep; a shared plan is published.

    Raises:
        InputError: the directory holds a sweep already.
        JournalError: it cannot be written.
        TargetError: the shared plan cannot be used.
    """
    if sharing is not None:
        from controller.fleet.shared_plan import publish  # noqa: PLC0415 - psycopg is an optional extra

        plan = dataclasses.replace(plan, shared=True)
        write_sweep(plan, workload, context.directory)
        publish(sharing.url, plan, workload)
        context.watcher.note(f"others may join with: --shared-plan … --join {plan.sweep_id}")
    else:
        write_sweep(plan, workload, context.directory)
    return _fleet_sweep(plan, workload, SweepState(), context, sharing)


def joined_fleet_sweep(context: FleetContext, sharing: Sharing, sweep_id: str) -> FleetSweep:
    """Write a sweep directory for a plan that another controller published, and return the sweep.

    Raises:
        InputError: there is no such plan, it is for hosts of another kind, or the directory holds a sweep already.
        JournalError: the directory cannot be written.
        TargetError: the shared plan cannot be used.
    """
    from controller.fleet.shared_plan import for_hosts, join  # noqa: PLC0415 - psycopg is an optional extra

    published, prompts = join(sharing.url, sweep_id)
    _refuse_other_kind(published, context, f"the sweep {sweep_id}")
    own = fleet_plan(published, context.targets)
    plan = for_hosts(own, own.hosts, str(context.targets[0].inventory))
    with tempfile.TemporaryDirectory(prefix="controller-") as folder:
        (Path(folder) / PROMPTS).write_text(prompts, encoding="utf-8")
        workload = frozen_workload(plan, Path(folder))
    write_sweep(plan, workload, context.directory)
    return _fleet_sweep(plan, workload, SweepState(), context, sharing)


def resumed_fleet_sweep(context: FleetContext, sharing: Sharing | None = None) -> FleetSweep:
    """Return a sweep that goes on where its journal ends, on the hosts that are given now.

    Raises:
        InputError: there is no sweep to resume, its prompts are no longer those it began with, or it is shared and
            nobody says where.
        TargetError: the shared plan cannot be used.
    """
    plan, state = read_sweep(context.directory)
    if not plan.hosts:
        raise InputError(f"the sweep in {display(context.directory)} measured one host; resume it without --hosts.")
    if plan.shared != (sharing is not None):
        words = "is part of a shared plan; give --shared-plan too" if plan.shared else "is not part of a shared plan"
        raise InputError(f"the sweep in {display(context.directory)} {words}.")
    _refuse_other_kind(plan, context, f"the sweep in {display(context.directory)}")
    return _fleet_sweep(plan, frozen_workload(plan, context.directory), state, context, sharing)


def _refuse_other_kind(plan: Plan, context: FleetContext, name: str) -> None:
    if context.targets[0].simulated != plan.simulated:
        raise InputError(
            f"{name} measures {'simulated' if plan.simulated else 'real'} hosts; figures of the other kind are not "
            "mixed with them."
        )


def _fleet_sweep(
    plan: Plan, workload: Workload, state: SweepState, context: FleetContext, sharing: Sharing | None
) -> FleetSweep:
    names = ", ".join(target.title for target in context.targets)
    holder = str((state.header or {}).get("controller_id") or uuid.uuid4())
    return FleetSweep(
        plan=plan,
        directory=context.directory,
        state=state,
        runners=_runners(plan, workload, state, context),
        watcher=context.watcher,
        leases=sharing.leases(plan, holder) if sharing else Alone(),
        accept_changes=context.accept_changes,
        header=describe(context.arguments, names) | {"controller_id": holder},
    )


def _runners(plan: Plan, workload: Workload, state: SweepState, context: FleetContext) -> Mapping[str, AnsibleHost]:
    return {
        target.host: AnsibleHost(
            plan=plan,
            directory=context.directory,
            target=target,
            workload=workload,
            found=state.host(target.host),
            leave_running=context.leave_running,
            accept_changes=context.accept_changes,
        )
        for target in context.targets
    }
