"""Adaptive speculation starts only where the installed SGLang can."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_adaptive import (
    CONFIG_FLAG,
    adaptive_errors,
    read_candidates,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_command_line import parse_command_line

if TYPE_CHECKING:
    from pathlib import Path


def errors(more: str, version: str | None, candidates: tuple[int, ...] | None = None) -> str:
    words = ["python3", "-m", "sglang.launch_server", "--speculative-adaptive", *more.split()]
    return "; ".join(adaptive_errors(parse_command_line(words), version, candidates))


@pytest.mark.parametrize("version", ["0.5.15", "0.5.16", "0.5.18"])
def test_a_start_below_the_largest_candidate_dies_in_these_releases(version: str) -> None:
    for more in ("--speculative-num-steps 3", ""):  # 3 is what SGLang chooses itself
        assert f"SGLang {version} dies while it captures graphs" in errors(more, version)
    assert errors("--speculative-num-steps 7", version) == ""


@pytest.mark.parametrize("version", ["0.5.11", "0.5.14", "0.5.19", "0.5.23", None])
def test_other_releases_start_at_any_candidate(version: str | None) -> None:
    assert errors("--speculative-num-steps 3", version) == ""


def test_a_start_that_is_no_candidate_is_refused() -> None:
    assert errors("--speculative-num-steps 5", "0.5.19") == (
        "adaptive speculation cannot start at 5 steps: its candidates are 0, 1, 3, 7"
    )
    assert errors("--speculative-num-steps 5", "0.5.20") == ""
    assert errors("--speculative-num-steps 5", "0.5.12") == ""  # that release added it to the candidates
    assert errors("--speculative-num-steps 5", None) == ""  # a candidate of some release
    assert "0, 1, 3, 5, 7" in errors("--speculative-num-steps 0 --speculative-num-steps 2", None)


@pytest.mark.parametrize(
    "flags",
    [
        "--disable-cuda-graph",
        "--disable-decode-cuda-graph",
        "--enable-mis --cuda-graph-backend-decode full",
        "--cuda-graph-backend-decode=disabled",
        '--cuda-graph-config {"decode":{"backend":"disabled"}} --cuda-graph-backend-decode full',
    ],
)
def test_without_graphs_of_decoding_any_candidate_can_start(flags: str) -> None:
    assert errors(f"--speculative-num-steps 3 {flags}", "0.5.15") == ""
    assert "cannot start at 5" in errors(f"--speculative-num-steps 5 {flags}", "0.5.15")


@pytest.mark.parametrize(
    "flags",
    [
        "--disable-prefill-cuda-graph",
        "--disable-cuda-graph --cuda-graph-backend-decode full",
        '--cuda-graph-config {"prefill":{"backend":"disabled"}}',
        "--cuda-graph-config nonsense",
    ],
)
def test_graphs_of_decoding_are_captured_beside_these(flags: str) -> None:
    assert "dies" in errors(f"--speculative-num-steps 3 {flags}", "0.5.15.post1")


@pytest.mark.parametrize("flags", ["--enable-dp-attention", "--enable-pdmux", "--speculative-algorithm NGRAM"])
def test_where_sglang_falls_back_to_fixed_steps_nothing_is_said(flags: str) -> None:
    assert errors(f"--speculative-num-steps 2 {flags}", "0.5.15") == ""


def test_before_0_5_13_a_file_may_hold_anything() -> None:
    assert errors(f"{CONFIG_FLAG} /x", "0.5.12") == ""


def test_the_candidates_of_a_file_count(tmp_path: Path) -> None:
    path = tmp_path / "adaptive.json"
    path.write_text(json.dumps({"1": {"candidate_steps": [2, 5]}, "8": {"candidate_steps": [0, 2]}, "note": 1}))
    assert read_candidates(str(path)) == (0, 2, 5)
    flags = f"{CONFIG_FLAG} {path} --speculative-num-steps"
    assert errors(f"{flags} 5", "0.5.15", (0, 2, 5)) == ""
    assert "largest candidate 5" in errors(f"{flags} 2", "0.5.15", (0, 2, 5))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"1": []}',
        '{"1": {"candidate_steps": "37"}}',
        '{"1": {"candidate_steps": []}}',
        '{"1": {"candidate_steps": [1]}, "8": {"candidate_steps": 7}}',
        '{"1": {"candidate_steps": ["3"]}}',
        '{"1": {"candidate_steps": [1.5]}}',
        '{"1": {"candidate_steps": [1e999]}}',
        '{"1": {"candidate_steps": [-1]}}',
        '{"1": {"candidate_steps": [%s]}}' % ("9" * 5000),
        "[" * 100_000,
        '{"candidate_steps": [1, 3]}',
        '{"1": {}}',
        "{}",
    ],
    ids=lambda text: text[:40],
)
def test_a_file_that_is_none_is_said_to_be_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "adaptive.json"
    path.write_text(text)
    assert read_candidates(str(path)) is None
    assert "no readable file" in errors(f"{CONFIG_FLAG} {path} --speculative-num-steps 3", "0.5.15")
    assert read_candidates(str(tmp_path / "missing.json")) is None


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), str(tmp_path), "", "/nul\0", "x" * 5000):
        assert read_candidates(path) is None


def test_a_server_with_fixed_steps_is_not_asked() -> None:
    assert list(adaptive_errors(parse_command_line(["python3", "-m", "sglang.launch_server"]), "0.5.15")) == []
