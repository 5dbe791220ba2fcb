from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.arms import build_arms
from controller.exits import InputError, JournalError
from controller.plan import Plan, schedule

if TYPE_CHECKING:
    from pathlib import Path

ARMS = build_arms((2, 3))


def make_plan(**changes: object) -> Plan:
    values: dict[str, object] = {
        "sweep_id": "S",
        "created": "2026-01-01T00:00:00+00:00",
        "inventory": "/inventory",
        "limit": "host",
        "arms": ARMS,
        "cells": schedule(ARMS, 2, 7),
        "blocks": 2,
        "seed": 7,
        "workload": {"name": "mixed"},
        "workload_fingerprint": "f",
        "max_running_requests": 16,
        "cuda_graph_max_bs": None,
        "simulated": True,
    }
    return Plan(**(values | changes))  # type: ignore[arg-type]


@given(blocks=st.integers(1, 12), seed=st.integers(0, 2**32))
def test_every_block_launches_every_arm_once(blocks: int, seed: int) -> None:
    cells = schedule(ARMS, blocks, seed)
    assert [cell.order for cell in cells] == list(range(len(ARMS) * blocks))
    assert len({cell.cell_id for cell in cells}) == len(cells)
    for block in range(1, blocks + 1):
        assert sorted(cell.arm for cell in cells if cell.block == block) == sorted(arm.name for arm in ARMS)


def test_the_seed_decides_the_order() -> None:
    assert schedule(ARMS, 5, 1) == schedule(ARMS, 5, 1)
    assert len({tuple(cell.arm for cell in schedule(ARMS, 1, seed)) for seed in range(50)}) == 6


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = make_plan()
    plan.write(path)
    assert Plan.read(path) == plan
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99}', '{"schema": 1}', "{"])
def test_a_bad_plan_is_refused_with_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"plan\.json|plan of this version"):
        Plan.read(path)


def test_a_missing_plan_is_not_a_sweep_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a sweep directory"):
        Plan.read(tmp_path / "plan.json")


def test_a_plan_that_cannot_be_written_is_a_journal_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="nothing was started"):
        make_plan().write(tmp_path / "missing" / "plan.json")


def test_the_plan_is_plain_json() -> None:
    assert json.loads(json.dumps(make_plan().as_json()))["arms"][0]["name"] == "baseline"


def test_a_file_is_no_sweep_directory(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("")
    with pytest.raises(InputError, match=r"journal.jsonl is a file; a sweep directory is wanted"):
        Plan.read(tmp_path / "journal.jsonl" / "plan.json")
