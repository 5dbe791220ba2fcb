"""Directories of several controllers of one plan become one; whatever does not belong together is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controller.cli import main
from controller.exits import Exit, InputError
from controller.fleet.identity import HostsDifferError, comparable, differences
from controller.fleet.merge import merge
from controller.plan import Plan
from controller.sweep.results import analyse, read_sweep
from controller.sweep.state import CellState
from tests.unit.controller.report.sample import BASELINE, SLOWER, write_sweep

if TYPE_CHECKING:
    from pathlib import Path


def part(
    directory: Path, blocks: set[int], host: str, *, driver: str = "580", seed: int = 7, noise: float | None = None
) -> Path:
    """A controller that finished some of four blocks, and was in the middle of one more."""
    write_sweep(directory, {"baseline": (*BASELINE, 82.2), "steps-2": (*SLOWER, 60.2)}, seed=seed)
    (directory / "prompts.jsonl").write_text("{}\n")
    path = directory / "journal.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    plan = replace(Plan.from_json(records[0]["plan"]), hosts=(host,), limit=host, shared=True)
    plan = replace(plan, aa_noise=noise, aa_source=f"{host}: A/A" if noise else "")
    records[0]["plan"] = plan.as_json()
    half_done = max(blocks) % 4 + 1
    kept = [records[0], {"kind": "host", "host": host, "state": "joined"}]
    for record in records[1:]:
        block = int(record["cell"][1:3]) if "cell" in record else 0
        if block in blocks or (block == half_done and record["cell"].endswith("baseline")):
            identity = {"identity": {"driver": driver, "GPUs": host}} if record["kind"] == "server" else {}
            kept.append({**record, **identity, "host": host})
    kept += [{"kind": "block", "block": block, "host": host, "state": "finished"} for block in sorted(blocks)]
    path.write_text("".join(json.dumps({"at": 1.0, **record}) + "\n" for record in kept))
    (directory / "plan.json").unlink()
    plan.write(directory / "plan.json")
    return directory


def test_each_block_counts_where_it_was_finished(tmp_path: Path) -> None:
    one, two = part(tmp_path / "one", {1, 2}, "gpu1"), part(tmp_path / "two", {3, 4}, "gpu2")
    before = (one / "journal.jsonl").read_bytes()
    (sentence,) = merge([one, two], tmp_path / "all")
    assert "4 blocks of 2 controllers" in sentence
    plan, state = read_sweep(tmp_path / "all")
    assert plan.hosts == ("gpu1", "gpu2")
    assert all(state.cell(cell.cell_id).state is CellState.DONE for cell in plan.cells)
    assert all(state.cell(cell.cell_id).times_done == 1 for cell in plan.cells)
    assert state.cell("b03-baseline").host == "gpu2"
    assert {flag.code for flag in analyse(plan, state).flags} <= {"baseline_moved", "drift"}
    assert (tmp_path / "all" / "cells" / "b04-steps-2" / "server.log").exists()
    assert (one / "journal.jsonl").read_bytes() == before


def test_the_largest_noise_floor_of_all_hosts_counts(tmp_path: Path) -> None:
    parts = [
        part(tmp_path / "one", {1, 2}, "gpu1", noise=0.013),
        part(tmp_path / "two", {3}, "gpu2", noise=0.031),
        part(tmp_path / "three", {4}, "gpu3"),
    ]
    merge(parts, tmp_path / "all")
    plan, state = read_sweep(tmp_path / "all")
    assert (plan.aa_noise, plan.aa_source) == (0.031, "gpu2: A/A")
    assert analyse(plan, state).margin == 0.031


def test_what_nobody_finished_is_left_out(tmp_path: Path) -> None:
    one, two = part(tmp_path / "one", {1, 2}, "gpu1"), part(tmp_path / "two", {3}, "gpu2")
    assert "1 blocks are finished by none" in merge([one, two], tmp_path / "all")[-1]
    _, state = read_sweep(tmp_path / "all")
    assert state.cell("b04-baseline").state is CellState.PLANNED


def test_a_block_finished_twice_is_refused(tmp_path: Path) -> None:
    one, two = part(tmp_path / "one", {1, 2}, "gpu1"), part(tmp_path / "two", {2}, "gpu2")
    with pytest.raises(InputError, match="block 2 was finished in"):
        merge([one, two], tmp_path / "all")


def test_another_plan_is_refused(tmp_path: Path) -> None:
    one, two = part(tmp_path / "one", {1}, "gpu1"), part(tmp_path / "two", {2}, "gpu2", seed=8)
    with pytest.raises(InputError, match="follow different plans"):
        merge([one, two], tmp_path / "all")


def test_a_sweep_of_its_own_is_refused(tmp_path: Path) -> None:
    one = write_sweep(tmp_path / "one", {"baseline": BASELINE, "steps-2": SLOWER})
    with pytest.raises(InputError, match="not part of a shared plan"):
        merge([one, one], tmp_path / "all")


def test_hosts_that_differ_are_refused_or_labelled(tmp_path: Path) -> None:
    one, two = part(tmp_path / "one", {1, 2}, "gpu1"), part(tmp_path / "two", {3, 4}, "gpu2", driver="570")
    with pytest.raises(HostsDifferError, match="driver is 570, not 580"):
        merge([one, two], tmp_path / "all")
    merge([one, two], tmp_path / "all", accept_changes=True)
    plan, state = read_sweep(tmp_path / "all")
    assert "hosts_differ" in {flag.code for flag in analyse(plan, state).flags}
    with pytest.raises(InputError, match="holds a sweep already"):
        merge([one, two], tmp_path / "all", accept_changes=True)


def test_report_of_several_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = part(tmp_path / "one", {1, 2}, "gpu1"), part(tmp_path / "two", {3, 4}, "gpu2")
    assert main(["report", str(one), str(two)]) == Exit.USAGE
    assert "name it with --output" in capsys.readouterr().err
    assert main(["report", str(one), str(two), "--output", str(tmp_path / "all"), "--format", "csv"]) == Exit.OK
    assert "4 blocks of 2 controllers" in capsys.readouterr().err
    assert "gpu2" in (tmp_path / "all" / "cells.csv").read_text()


def test_what_differs_between_machines_by_nature_is_not_compared() -> None:
    first = {
        "GPUs": "GPU-1 GPU-2", "driver": "580", "/data/models/target/config.json": "a" * 64,
        "/data/models/target (weights)": "b" * 64, "package torch": "2.11",
    }  # fmt: skip
    second = {
        "GPUs": "GPU-8 GPU-9", "driver": "580", "/other/target/config.json": "a" * 64,
        "/other/target (weights)": "c" * 64,
    }  # fmt: skip
    assert comparable(first)["number of GPUs"] == "2"
    assert differences({"a": first, "b": second, "c": {}}) == {}
    assert differences({"a": first, "b": second | {"/other/target/config.json": "d" * 64}, "c": first}) == {
        "b": ["target/config.json is dddddddddddd…, not aaaaaaaaaaaa…"]
    }
