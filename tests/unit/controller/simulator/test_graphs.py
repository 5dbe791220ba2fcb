"""Which CUDA graphs a simulated scheduler captures, in which order, and where adaptive steps end a start."""

import json
from pathlib import Path
from typing import Any

import pytest

from controller.simulator.site.sglang.arguments import parse
from controller.simulator.site.sglang.failures import LogitsBufferError, traceback_of
from controller.simulator.site.sglang.graphs import GraphCapture
from controller.simulator.site.sglang.resolution import resolve


class Stage:
    def __init__(self) -> None:
        self.free = 10_000.0

    def enter(self, phase: str) -> None:
        del phase

    def spend(self, seconds: float) -> None:
        del seconds

    def seconds_of(self, name: str) -> float:
        return {"target_verify_graphs_s": 4.0, "draft_decode_graphs_s": 2.0}.get(name, 1.0)

    def free_mib(self) -> float:
        return self.free

    def hold(self, more_mib: float) -> None:
        self.free -= more_mib


class Memory:
    memory = {"graph_mib": 100.0}  # noqa: RUF012 - a stand-in


def capture(folder: Path, *flags: str, draft: dict[str, Any] | None = None, running: int = 8) -> list[str]:
    for name, config in (("target", {}), ("draft", {"draft_vocab_size": 4096, **(draft or {})})):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
    base = f"--model-path {folder}/target --cuda-graph-max-bs-decode 8 --max-running-requests {running}"
    fields = parse([*base.split(), *flags])
    resolve(fields, lambda _: None)
    lines: list[str] = []
    stage = Stage()
    try:
        GraphCapture(
            fields,
            Memory(),  # type: ignore[arg-type]
            stage,  # type: ignore[arg-type]
            running,
            log=lines.append,
            first_rank_log=lines.append,
        ).run()
    except LogitsBufferError as error:
        lines.append(str(error))
    return lines


def eagle(folder: Path, steps: int, *more: str) -> list[str]:
    draft = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", f"{folder}/draft"]
    return [*draft, "--speculative-eagle-topk", "1", "--speculative-num-steps", str(steps), *more]


def test_without_prefill_graphs_both_models_say_so(tmp_path: Path) -> None:
    lines = capture(tmp_path, *eagle(tmp_path, 3, "--disable-prefill-cuda-graph"))
    assert [line.partition(" because")[0] for line in lines if line.startswith("Disable")] == [
        "Disable prefill CUDA graph"
    ] * 2
    assert [line.partition(" CUDA graph begin")[0] for line in lines if " begin. " in line] == [
        "Capture target verify",
        "Capture draft decode",
        "Capture draft extend",
    ]


def test_without_any_graph_nothing_is_captured(tmp_path: Path) -> None:
    lines = capture(tmp_path, *eagle(tmp_path, 3, "--disable-cuda-graph"))
    assert len(lines) == 2
    assert all(line.startswith("Disable prefill CUDA graph because") for line in lines)


def test_adaptive_captures_the_other_candidates_after_the_first(tmp_path: Path) -> None:
    lines = capture(tmp_path, *eagle(tmp_path, 7, "--speculative-adaptive", "--disable-prefill-cuda-graph"))
    tail = [line for line in lines if " end. " not in line and not line.startswith("Disable")][3:]
    assert [line.partition(", bs=")[0] for line in tail] == [
        "Capture draft extend CUDA graph begin. backend=full, num_tokens_per_bs=1",
        "Built adaptive runtime state steps=0: elapsed=3.00s, mem=0.20GB",
        "Capture draft extend CUDA graph begin. backend=full, num_tokens_per_bs=2",
        "Built adaptive runtime state steps=1: elapsed=3.00s, mem=0.20GB",
        "Capture draft decode CUDA graph begin. backend=full, num_tokens_per_bs=1",
        "Capture draft extend CUDA graph begin. backend=full, num_tokens_per_bs=4",
        "Built adaptive runtime state steps=3: elapsed=4.00s, mem=0.29GB",
    ]


@pytest.mark.parametrize(
    ("steps", "running", "sentence"),
    [
        (3, 8, "holds 32 rows but caller needs 64 (vocab_size=4096)"),
        (0, 8, "holds 8 rows but caller needs 16 (vocab_size=4096)"),
        (1, 4, "holds 8 rows but caller needs 16 (vocab_size=4096)"),
    ],
)
def test_adaptive_dies_when_a_candidate_is_above_the_start(
    tmp_path: Path, steps: int, running: int, sentence: str
) -> None:
    lines = capture(tmp_path, *eagle(tmp_path, steps, "--speculative-adaptive"), running=running)
    assert lines[-1] == f"shared logits buffer {sentence}"
    assert lines[-2].startswith("Capture draft extend CUDA graph begin.")


def test_adaptive_without_decode_graphs_needs_no_buffer(tmp_path: Path) -> None:
    lines = capture(tmp_path, *eagle(tmp_path, 3, "--speculative-adaptive", "--disable-cuda-graph"))
    assert [line.partition(",")[0] for line in lines[-3:]] == [
        "Built adaptive runtime state steps=0: elapsed=0.00s",
        "Built adaptive runtime state steps=1: elapsed=0.00s",
        "Built adaptive runtime state steps=7: elapsed=0.00s",
    ]


@pytest.mark.parametrize(
    ("draft", "size"),
    [
        ({"draft_vocab_size": None, "hot_vocab_size": 500}, 500),
        ({"draft_vocab_size": None, "vocab_size": 600}, 600),
    ],
)
def test_the_draft_s_vocabulary_is_the_smallest_known(tmp_path: Path, draft: dict[str, Any], size: int) -> None:
    lines = capture(tmp_path, *eagle(tmp_path, 3, "--speculative-adaptive"), draft=draft)
    assert lines[-1].endswith(f"(vocab_size={size})")


def test_a_traceback_has_sglang_s_frames_where_they_are_known() -> None:
    text = traceback_of(LogitsBufferError(32, 64, 4096))
    assert text.splitlines()[0] == "Traceback (most recent call last):"
    assert text.splitlines()[-3].endswith('model_executor/graph_shared_output.py", line 56, in get_logits_buffer')
    assert text.endswith("AssertionError: shared logits buffer holds 32 rows but caller needs 64 (vocab_size=4096)\n")
    with pytest.raises(ValueError, match="none") as other:
        int("none")
    assert 'test_graphs.py", line' in traceback_of(other.value)
