"""Makes a sweep ready to run: a new one from options, or a resumed one from its directory."""

from __future__ import annotations

import platform
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import controller
from controller.ahead import AheadOfTime
from controller.analysis.stopping import planned_looks
from controller.exits import InputError, JournalError
from controller.keys import read_keys
from controller.load.workload import Workload, WorkloadError
from controller.load.workload import load as load_workload
from controller.paths import display, make_private
from controller.plan import Plan, schedule
from controller.playbooks import Playbooks
from controller.redaction import redact
from controller.sweep.files import JOURNAL, PLAN, PROMPTS
from controller.sweep.http_load import HttpLoad
from controller.sweep.leftovers import RunningNote
from controller.sweep.noise import known as known_noise
from controller.sweep.options import DEFAULT_BLOCKS, SIMULATED_BLOCKS
from controller.sweep.results import read_sweep
from controller.sweep.state import SweepState
from controller.sweep.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from controller.inventory import Target
    from controller.sweep.options import Options
    from controller.sweep.ports import Watcher

LEAST_RUNNING_REQUESTS = 16
BUDGET_BLOCKS = 4
"""With a budget and no --max-blocks the stop rule may go up to this many times --blocks."""
GIVEN_NOISE = "--aa-noise"
"""Where a noise floor comes from that was not measured but given."""
REPORTED_PACKAGES = ("ansible-core", "ansible-runner", "httpx")


@dataclass(frozen=True, slots=True)
class Context:
    """Where a sweep is kept, what it runs on, who watches, and the words it was started with."""

    directory: Path
    target: Target
    watcher: Watcher
    leave_running: bool = False
    accept_changes: bool = False
    arguments: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Equipment:
    """What launches and measures on one host: Ansible, load, and the note that leads to what a killed run leaves."""

    playbooks: AheadOfTime
    load: HttpLoad
    note: RunningNote

    @classmethod
    def of(cls, target: Target, workplace: Path, sweep_id: str, workload: Workload, watcher: Watcher) -> Equipment:
        """Read the keys of the host and make ready; ``workplace`` is where the note is kept."""
        keys = read_keys(target)
        note = RunningNote(workplace, sweep_id)
        playbooks = Playbooks(
            target,
            owner=str(workplace.resolve()),
            on_child=lambda pid: note.update(child=pid),
            on_progress=watcher.progress,
        )
        return cls(AheadOfTime(playbooks), HttpLoad(workload, keys.api_key, keys.admin_api_key), note)


def new_plan(options: Options, target: Target) -> tuple[Plan, Workload]:
    """Decide everything about a new sweep.

    Raises:
        InputError: the workload cannot be read or does not fit.
    """
    settings: dict[str, Any] = {
        "repeats": options.repeats,
        "concurrency_levels": list(options.concurrency),
        "seed": options.seed,
        "chat_format": options.chat_format or chat_format_of(target.variables),
    }
    optional = {"output_tokens": options.output_tokens, "prompts_per_run": options.prompts_per_run}
    settings |= {name: value for name, value in optional.items() if value is not None}
    running = options.max_running_requests or max(LEAST_RUNNING_REQUESTS, *options.concurrency)
    if max(options.concurrency) > running:
        raise InputError(
            f"--concurrency {max(options.concurrency)} is more than --max-running-requests {running}: requests would "
            "queue in the server and the times would measure the queue."
        )
    try:
        workload = load_workload(options.workload, **settings)
    except (WorkloadError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"--workload: {error}") from error
    blocks = options.blocks or (SIMULATED_BLOCKS if target.simulated else DEFAULT_BLOCKS)
    most = options.max_blocks or (blocks if options.budget_s is None else BUDGET_BLOCKS * blocks)
    if most < blocks:
        raise InputError(f"--max-blocks {most} is less than --blocks {blocks}; the stop rule only adds blocks.")
    noise, source = _noise(options, target)
    now = datetime.now(UTC)
    plan = Plan(
        sweep_id=f"{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}",
        created=now.isoformat(timespec="seconds"),
        inventory=str(target.inventory),
        limit=target.host,
        arms=tuple(options.arms),
        cells=schedule(options.arms, blocks, options.seed),
        blocks=blocks,
        seed=options.seed,
        workload=workload.settings(),
        workload_fingerprint=workload.fingerprint,
        max_running_requests=running,
        cuda_graph_max_bs=options.cuda_graph_max_bs or running,
        simulated=target.simulated,
        max_blocks=most,
        budget_s=options.budget_s,
        confirm_blocks=0 if options.aa else options.confirm_blocks,
        looks=planned_looks(blocks, most),
        margin=options.margin,
        aa_noise=noise,
        aa_source=source,
        aa=options.aa,
    )
    return plan, workload


def chat_format_of(variables: Mapping[str, Any]) -> str:
    """Return the chat format of the model that the inventory serves, by its name: Kimi K2's, else the words alone."""
    names = [variables.get("sglang_server_model_path")]
    flags = variables.get("sglang_server_extra_flags")
    if isinstance(flags, Mapping):
        names += [value for flag, value in flags.items() if str(flag).lstrip("-") == "served-model-name"]
    kimi = any("kimi-k2" in str(name).lower().replace("_", "-") for name in names)
    return "kimi-k2" if kimi else "plain"


def _noise(options: Options, target: Target) -> tuple[float | None, str]:
    """Return the noise floor to use and where it comes from: given, else measured on this node."""
    if options.aa:
        return None, ""
    if options.aa_noise is not None:
        return options.aa_noise, GIVEN_NOISE
    found = known_noise(target)
    return (found.noise, found.source) if found else (None, "")


def new_sweep(plan: Plan, workload: Workload, context: Context) -> Sweep:
    """Write the sweep directory and return the sweep.

    Raises:
        InputError: the directory holds a sweep already.
        JournalError: it cannot be written.
    """
    write_sweep(plan, workload, context.directory)
    return _sweep(plan, workload, SweepState(), context)


def write_sweep(plan: Plan, workload: Workload, directory: Path) -> None:
    """Write plan and prompts into a new sweep directory.

    Raises:
        InputError: the directory holds a sweep already.
        JournalError: it cannot be written.
    """
    if (directory / PLAN).exists() or (directory / JOURNAL).exists():
        raise InputError(
            f"{display(directory)} holds a sweep already; go on with it: sweep --resume {display(directory)}"
        )
    try:
        make_private(directory)
        (directory / PROMPTS).touch(mode=0o600)
        workload.freeze(directory / PROMPTS)
    except OSError as error:
        raise JournalError(
            f"cannot write the sweep directory {directory}: {error.strerror}; nothing was started."
        ) from error
    plan.write(directory / PLAN)


def resumed_sweep(context: Context) -> Sweep:
    """Return a sweep that goes on where its journal ends.

    Raises:
        InputError: there is no sweep to resume, or its prompts are no longer those it began with.
    """
    directory, target = context.directory, context.target
    if not directory.is_dir():
        raise InputError(f"--resume {directory}: there is no such directory.")
    plan, state = read_sweep(directory)
    if target.host != plan.limit or target.simulated != plan.simulated:
        raise InputError(
            f"the sweep in {display(directory)} measured {plan.limit}{' (simulated)' if plan.simulated else ''}, "
            f"not {target.title}: figures of different machines are not mixed. Give its inventory with --inventory."
        )
    return _sweep(plan, frozen_workload(plan, directory), state, context)


def frozen_workload(plan: Plan, directory: Path) -> Workload:
    """Return the prompts that a sweep began with.

    Raises:
        InputError: they cannot be read, or are others.
    """
    try:
        workload = load_workload(directory / PROMPTS, **plan.workload)
    except (WorkloadError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"the frozen prompts of the sweep cannot be read: {error}") from error
    if workload.fingerprint != plan.workload_fingerprint:
        raise InputError(
            f"{display(directory / PROMPTS)} is not what the sweep began with; launches with different prompts are "
            "not mixed. Restore the file, or start a new sweep."
        )
    return workload


def _sweep(plan: Plan, workload: Workload, state: SweepState, context: Context) -> Sweep:
    target = context.target
    equipment = Equipment.of(target, context.directory, plan.sweep_id, workload, context.watcher)
    return Sweep(
        plan=plan,
        directory=context.directory,
        target=target,
        state=state,
        playbooks=equipment.playbooks,
        load=equipment.load,
        watcher=context.watcher,
        note=equipment.note,
        leave_running=context.leave_running,
        accept_changes=context.accept_changes,
        header=describe(context.arguments, target.title),
    )


def describe(arguments: Sequence[str], target: str) -> dict[str, Any]:
    """Return what the journal keeps about who runs the sweep, with what, on what."""
    return {
        "versions": _versions(),
        "arguments": redact(list(arguments)),
        "machine": platform.node(),
        "target": target,
    }


def _versions() -> dict[str, str]:
    found = {"controller": controller.__version__, "python": sys.version.split()[0]}
    for name in REPORTED_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
