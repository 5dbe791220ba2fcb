"""A finished sweep directory with the speeds that a test asks for, prompts frozen, fresh launches included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.arms import Arm, baseline, steps_arm
from controller.journal import Journal
from controller.load.workload import load
from controller.plan import Plan, added_blocks, cell_json, schedule
from tests.unit.controller.report.sample import requests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from controller.plan import Cell

BASELINE = (82.0, 83.0, 82.5)
FASTER = (95.0, 96.0, 95.5)
SLOWER = (60.0, 60.5, 61.0)
EQUAL = (82.1, 82.9, 82.6)
SCATTERED = (70.0, 99.0, 83.0)
PAYS: dict[str, Sequence[float]] = {"baseline": BASELINE, "steps-3": FASTER}
CONFIRMED: dict[str, Sequence[float]] = {"baseline": (82.4,), "steps-3": (95.4,)}


def write_sweep(
    directory: Path,
    speeds: Mapping[str, Sequence[float]] = PAYS,
    fresh: Mapping[str, Sequence[float]] = CONFIRMED,
    *,
    arms: Sequence[Arm] | None = None,
    levels: Sequence[int] = (1,),
    missing: int = 0,
    answers: Mapping[str, str] | None = None,
    length: float = 1.8,
    **plan_fields: Any,
) -> Path:
    """Write plan, prompts and journal.

    Args:
        directory: Where.
        speeds: {arm: tok/s in each block}.
        fresh: {arm: tok/s in each block that confirms}; empty for none.
        arms: When the settings of the arms matter.
        levels: Concurrencies; speeds are the same in each.
        missing: How many of the last launches were never made.
        answers: {arm: hash of its answers}, where they are not the baseline's.
        length: Acceptance length of arms that speculate.
        plan_fields: Of the plan.
    """
    directory.mkdir(parents=True)
    workload = load("mixed", output_tokens=256, prompts_per_run=6, repeats=1, concurrency_levels=list(levels))
    workload.freeze(directory / "prompts.jsonl")
    used = tuple(arms or [baseline() if name == "baseline" else steps_arm(int(name[-1])) for name in speeds])
    blocks = len(next(iter(speeds.values())))
    usual: dict[str, Any] = {
        "sweep_id": "S1", "created": "2026-01-01T12:00:00+00:00", "inventory": "hosts.yml", "limit": "box",
        "arms": used, "cells": schedule(used, blocks, 1), "blocks": blocks, "seed": 1, "workload": workload.settings(),
        "workload_fingerprint": workload.fingerprint, "max_running_requests": 16, "cuda_graph_max_bs": 8,
        "simulated": False,
    }  # fmt: skip
    plan = Plan(**usual | plan_fields)
    plan.write(directory / "plan.json")
    with Journal(directory / "journal.jsonl") as journal:
        journal.append("sweep", sweep_id=plan.sweep_id, plan=plan.as_json())
        cells = list(plan.cells)
        if fresh:
            added = added_blocks(plan, list(fresh), len(next(iter(fresh.values()))), confirmation=True)
            journal.append("extended", reason="confirmation", cells=[cell_json(cell) for cell in added])
            cells += added
        for cell in cells[: len(cells) - missing]:
            speed = fresh[cell.arm][cell.block - blocks - 1] if cell.confirmation else speeds[cell.arm][cell.block - 1]
            speculates = plan.arm(cell.arm).settings.get("sglang_server_speculative") is not False
            answer = (answers or {}).get(cell.arm)
            _measured(journal, cell, levels, speed, length if speculates else None, answer, plan.hosts[:1])
        journal.append("end", reason="ok")
    return directory


def _measured(
    journal: Journal,
    cell: Cell,
    levels: Sequence[int],
    speed: float,
    length: float | None,
    answer: str | None,
    host: Sequence[str],
) -> None:
    place: dict[str, Any] = {"cell": cell.cell_id, "arm": cell.arm, "block": cell.block, "attempt": 1}
    place |= {"host": host[0]} if host else {}
    journal.append("cell", **place, state="launching")
    argv = ["python3", "-m", "sglang.launch_server", "--arm", cell.arm]
    journal.append("server", **place, url="http://server", launch={"argv": argv, "fingerprint": cell.arm}, info={})
    for level in levels:
        rows = [row | {"text_sha256": answer or "a"} for row in requests(speed, length, count=6, concurrency=level)]
        journal.append("run", **place, run=0, warmup=False, concurrency=level, requests=rows)
    journal.append("cell", **place, state="done", s=1.0)
