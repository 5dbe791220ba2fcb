"""A finished sweep of a simulated node, made of two real launches: the other blocks are theirs with known noise.

The canary is compared with what the sweep says, so answers and acceptance must come from the node itself; to measure
five blocks for that would take a minute.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from controller.journal import Journal, read_journal
from controller.plan import Cell, Plan, cell_json
from tests.integration.simulated_sweep import SimulatedSweep

if TYPE_CHECKING:
    from pathlib import Path

    from controller.journal import Record

NOISE = (-0.06, 0.06, -0.03, 0.03)
"""ln(time) of the blocks that are added to the measured one, the same for both arms: the gain is the same in all."""
CONFIRMING = 1
"""How many of them are fresh launches that check the winner."""


WELL_DRAFTED = {"acceptance": [0.95, 0.95, 0.95], "prompt_sd": 0.0}
"""Speculation pays by far on a node with this: about 3.6 tokens a cycle, 2.5 would be enough."""


def node_that_pays(root: Path) -> SimulatedSweep:
    """Return a small node in real time: a busy machine hardly changes what it measures."""
    one = SimulatedSweep.create(root, profile="pays", time_scale=1.0, loading_scale=0.0005, gpus=2)
    one.node.configure(speed=WELL_DRAFTED)
    (one.inventory / "zz_two_gpus.yml").write_text("inference:\n  hosts:\n    simulated: {sglang_server_tp_size: 2}\n")
    return one


def finished_sweep(simulated: SimulatedSweep) -> Path:
    """Measure one block with and without speculation, and write the sweep that five blocks would have given."""
    done = simulated.sweep("--steps", "3", "--blocks", "1", "--no-confirm", "--no-report", "--json")
    assert done.returncode == 0, done.stderr
    directory = simulated.sweep_directory
    records = list(read_journal(directory / "journal.jsonl").records)
    plan = Plan.read(directory / "plan.json")
    (directory / "journal.jsonl").unlink()
    with Journal(directory / "journal.jsonl") as journal:
        for record in records:
            if record["kind"] == "end":
                _more_blocks(journal, plan, records)
            _append(journal, record)
    return directory


def _more_blocks(journal: Journal, plan: Plan, records: list[Record]) -> None:
    for number, noise in enumerate(NOISE, start=2):
        fresh = number > len(NOISE) + 1 - CONFIRMING
        names = {cell.cell_id: f"b{number:02d}-{cell.arm}" for cell in plan.cells}
        cells = [
            Cell(names[cell.cell_id], number, (number - 1) * len(plan.cells) + cell.order, cell.arm, fresh)
            for cell in plan.cells
        ]
        journal.append("extended", reason="test", cells=[cell_json(cell) for cell in cells])
        for record in records:
            if record.get("cell") in names and record["kind"] in ("cell", "server", "run"):
                copy = _timed(record, noise)
                _append(journal, copy | {"cell": names[record["cell"]], "block": number})


def _timed(record: Record, noise: float) -> Record:
    """Return a record with the times of its requests changed."""
    if record["kind"] != "run":
        return record
    factor = math.exp(noise)
    requests: list[dict[str, Any]] = json.loads(json.dumps(record["requests"]))
    for request in requests:
        request["decode_s"] *= factor
        request["e2e_s"] = request["ttft_s"] + request["decode_s"]
    return record | {"requests": requests}


def _append(journal: Journal, record: Record) -> None:
    journal.append(record["kind"], **{name: value for name, value in record.items() if name not in ("kind", "at")})
