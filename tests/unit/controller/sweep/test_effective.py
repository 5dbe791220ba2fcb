"""The gate before a measurement: the server runs what was asked for, and is the same one afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controller.exits import Exit
from controller.sweep.effective import another_process, asked_settings, effective_mismatch
from controller.sweep.results import read_sweep
from controller.sweep.settings import extra_vars
from tests.unit.controller.sweep.fakes import FakeLoad, FakePlaybooks, plan, sweep

if TYPE_CHECKING:
    from pathlib import Path

INVENTORY = {"sglang_server_speculative_eagle_topk": 1, "sglang_server_model_path": "{{ x }}/target"}
GOOD = {
    "max_running_requests": 16,
    "cuda_graph_max_bs_decode": 8,
    "speculative_algorithm": "EAGLE3",
    "speculative_eagle_topk": 1,
    "speculative_num_steps": 3,
    "speculative_num_draft_tokens": 4,
    "mem_fraction_static": 0.8,
    "kv_cache_dtype": "fp8_e5m2",
}


def asked(**more: Any) -> dict[str, Any]:
    variables = {
        "sglang_server_max_running_requests": 16,
        "sglang_server_cuda_graph_max_bs": 8,
        "sglang_server_speculative": True,
        "sglang_server_speculative_num_steps": 3,
        "sglang_server_mem_fraction_static": "0.80",
        "sglang_server_extra_flags": {"kv-cache-dtype": "fp8_e5m2", "--list": [1, 2]},
        "sglang_server_log_file": "{{ dir }}/log",
        **more,
    }
    return asked_settings(variables, INVENTORY)


def test_everything_as_asked() -> None:
    assert effective_mismatch(asked(), GOOD) is None
    assert effective_mismatch(asked(), {}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_running_requests", 48),
        ("cuda_graph_max_bs_decode", 160),
        ("speculative_num_steps", 2),
        ("speculative_num_draft_tokens", 8),
        ("speculative_eagle_topk", 4),
        ("speculative_algorithm", "EAGLE"),
        ("mem_fraction_static", 0.7),
        ("kv_cache_dtype", "auto"),
    ],
)
def test_each_difference_is_a_failure(name: str, value: Any) -> None:
    found = effective_mismatch(asked(), {**GOOD, name: value})
    assert found is not None
    assert found.kind == "flags-differ"
    assert f"is {value}, not " in found.sentence


def test_an_older_server_calls_the_graph_size_otherwise() -> None:
    old = {name: value for name, value in GOOD.items() if name != "cuda_graph_max_bs_decode"}
    assert effective_mismatch(asked(), {**old, "cuda_graph_max_bs": 8}) is None
    assert effective_mismatch(asked(), {**old, "cuda_graph_max_bs": 9}) is not None


def test_no_speculation_must_be_no_speculation() -> None:
    off = asked(sglang_server_speculative=False)
    assert effective_mismatch(off, {"speculative_algorithm": None}) is None
    assert effective_mismatch(off, {"speculative_algorithm": "EAGLE3"}) is not None


def test_an_adaptive_server_chooses_its_steps() -> None:
    adaptive = asked(sglang_server_speculative_adaptive=True)
    assert "speculative_num_steps" not in adaptive
    assert effective_mismatch(adaptive, {**GOOD, "speculative_num_steps": 7, "speculative_adaptive": True}) is None
    assert effective_mismatch(adaptive, {**GOOD, "speculative_adaptive": False}) is not None


def test_a_tree_has_draft_tokens_of_its_own() -> None:
    tree = asked(sglang_server_speculative_eagle_topk=4, sglang_server_speculative_num_draft_tokens=16)
    assert tree["speculative_num_draft_tokens"] == 16
    assert "speculative_num_draft_tokens" not in asked(sglang_server_speculative_eagle_topk=4)
    assert asked(sglang_server_speculative_algorithm="NEXTN")["speculative_algorithm"] == "EAGLE"


def test_both_caps_are_the_same_in_all_arms() -> None:
    decided = plan(cuda_graph_max_bs=None)
    for cell in decided.cells:
        values = asked_settings(extra_vars(decided, cell, 1, {}), {})
        assert (values["max_running_requests"], values["cuda_graph_max_bs"]) == (16, 16)


def test_another_process_is_known_by_its_seed() -> None:
    assert another_process({"random_seed": 1}, {"random_seed": 1}) is None
    assert another_process({"random_seed": 1}, {}) is None
    found = another_process({"random_seed": 1}, {"random_seed": 2})
    assert found is not None
    assert found.kind == "server-restarted"


def test_a_cell_whose_server_runs_something_else_is_not_measured(tmp_path: Path) -> None:
    load = FakeLoad(info=lambda number: {"max_running_requests": 48 if number == 0 else 16})
    assert sweep(tmp_path / "s", FakePlaybooks(), load).run().exit_code is Exit.RUN_FAILED
    decided, state = read_sweep(tmp_path / "s")
    first = state.cell(decided.cells[0].cell_id)
    assert first.failure is not None
    assert first.failure["class"] == "flags-differ"
    assert first.requests == []


def test_a_silent_restart_fails_the_cell(tmp_path: Path) -> None:
    load = FakeLoad(info=lambda number: {"random_seed": min(number, 1)})
    assert sweep(tmp_path / "s", FakePlaybooks(), load).run().exit_code is Exit.RUN_FAILED
    decided, state = read_sweep(tmp_path / "s")
    failure = state.cell(decided.cells[0].cell_id).failure
    assert failure is not None
    assert failure["class"] == "server-restarted"
    assert state.cell(decided.cells[1].cell_id).failure is None
