"""From the journal to the analysis: everything that is reported is rebuilt from the journal alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from controller.exits import InputError
from controller.journal import read_journal
from controller.load.records import RecordError, RequestRecord
from controller.plan import Plan
from controller.sweep.configuration import sentence
from controller.sweep.files import JOURNAL, PLAN
from controller.sweep.repeated import NOT_LAUNCHED
from controller.sweep.state import CellHistory, CellState, SweepState, fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from controller.analysis.model import Launch
    from controller.analysis.result import Flag, SweepAnalysis
    from controller.arms import Arm


def read_sweep(directory: Path) -> tuple[Plan, SweepState]:
    """Read plan and state of a sweep: from its journal, or from its plan when it was killed before its first record.

    The plan holds the launches that were added on the way too.

    Raises:
        InputError: the directory holds no sweep.
        JournalError: the journal is damaged.
    """
    path = directory / JOURNAL
    state = fold(read_journal(path).records, str(path)) if path.exists() else SweepState()
    if state.header is None:
        return Plan.read(directory / PLAN), state
    try:
        return Plan.from_json(state.header["plan"]).with_cells(state.added), state
    except (KeyError, TypeError) as error:
        raise InputError(f"the plan in {path} is not one of this version: {error!r}.") from error


def launches(plan: Plan, state: SweepState) -> list[Launch]:
    """Return one launch for each cell that was measured or failed; what was not launched is left out."""
    from controller.analysis.conditions import conditions_from  # noqa: PLC0415 - only reports need the analysis
    from controller.analysis.model import launch_from_records  # noqa: PLC0415

    found = []
    several = len(state.measured_hosts) > 1
    adaptive = _adaptive_arms(plan, state)
    for cell in plan.cells:
        history = state.cell(cell.cell_id)
        if not history.state.has_result or (history.failure or {}).get(NOT_LAUNCHED):
            continue
        arm = plan.arm(cell.arm)
        found.append(
            launch_from_records(
                _records(history) if history.state is CellState.DONE else [],
                cell_id=cell.cell_id,
                block=cell.block,
                order=cell.order,
                arm=cell.arm,
                steps=_steps(arm, history),
                failure=str((history.failure or {}).get("class", "unknown"))
                if history.state is CellState.FAILED
                else None,
                simulated=plan.simulated or bool((history.server or {}).get("simulated")),
                confirmation=cell.confirmation,
                adaptive=cell.arm in adaptive,
                conditions=conditions_from(history.gpu, history.foreign),
                host=history.host if several else "",
            )
        )
    return found


def analyse(plan: Plan, state: SweepState) -> SweepAnalysis:
    """Analyse what the sweep has measured so far."""
    from controller.analysis.sweep import analyse as analyse_launches  # noqa: PLC0415 - imports scipy

    analysis = analyse_launches(
        launches(plan, state),
        margin=plan.margin,
        aa_noise=plan.aa_noise,
        aa_source=plan.aa_source,
        looks=max(1, len(plan.looks)),
    )
    return dataclasses.replace(analysis, flags=(*analysis.flags, *_accepted_changes(state), *_fleet_flags(plan, state)))


def _accepted_changes(state: SweepState) -> list[Flag]:
    """Return one flag for each change that was taken into the sweep, with the launches that came after it."""
    from controller.analysis.result import Flag  # noqa: PLC0415 - only reports need the analysis

    flags = []
    for number, record in enumerate(state.accepted, start=1):
        after = sorted(cell_id for cell_id, history in state.cells.items() if history.generation >= number)
        values = {"differences": sentence(record.get("differences", [])), "cells": ", ".join(after) or "none"}
        flags.append(Flag("accepted_changes", values=values))
    return flags


def _fleet_flags(plan: Plan, state: SweepState) -> list[Flag]:
    """Return what is to be known of a fleet: hosts that differ, hosts that were lost, launches that count no more."""
    from controller.analysis.result import Flag  # noqa: PLC0415 - only reports need the analysis

    flags = []
    if state.host_differences:
        words = "; ".join(f"{host}: {', '.join(some)}" for host, some in state.host_differences.items())
        flags.append(Flag("hosts_differ", values={"differences": words}))
    lost = {host: one.lost for host, one in state.hosts.items() if one.lost}
    if lost and plan.hosts:
        words = "; ".join(f"{host} ({reason.rstrip('.')})" for host, reason in lost.items())
        flags.append(Flag("hosts_lost", values={"hosts": words, "superseded": len(state.superseded)}))
    return flags


def _records(history: CellHistory) -> Iterable[RequestRecord]:
    try:
        return [RequestRecord.from_json(request) for request in history.requests]
    except RecordError as error:
        raise InputError(str(error)) from error


def _adaptive_arms(plan: Plan, state: SweepState) -> set[str]:
    """Return the arms whose server chooses its steps itself: their own setting, or the inventory's, as it says."""
    asked = {arm.name for arm in plan.arms if arm.settings.get("sglang_server_speculative_adaptive")}
    said = {cell.arm for cell in plan.cells if _says_adaptive(state.cell(cell.cell_id).server or {})}
    return asked | said


def _says_adaptive(server: Mapping[str, Any]) -> bool:
    """Return whether a server speculates with steps of its own choice; without an algorithm the flag means nothing."""
    return server.get("speculative_adaptive") is True and bool(server.get("speculative_algorithm"))


def _steps(arm: Arm, history: CellHistory) -> int | None:
    """Return the steps that ran: what the server said, else what the arm asked for; None without speculation."""
    if arm.settings.get("sglang_server_speculative") is False:
        return None
    said = (history.server or {}).get("speculative_num_steps")
    asked = arm.settings.get("sglang_server_speculative_num_steps")
    return next((value for value in (said, asked) if isinstance(value, int)), None)
