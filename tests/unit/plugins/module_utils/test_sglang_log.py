from __future__ import annotations

import itertools
import time

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import (
    MAX_LINE_BYTES,
    LineAssembler,
    PhaseTracker,
    is_fatal,
    parse_stamp,
    strip_collector,
    without_progress,
)
from hypothesis import given
from hypothesis import strategies as st

START = time.mktime((2026, 11, 30, 6, 22, 0, 0, 0, -1))

# Main wordings of SGLang 0.5.15 with speculation, seconds after 06:22:00.
NEW = """\
[2026-11-30 06:22:02] server_args=ServerArgs(model_path='/models/target')
[2026-11-30 06:22:05 TP0] Init torch distributed begin.
[2026-11-30 06:22:05 TP1] Init torch distributed begin.
[2026-11-30 06:22:07 TP0] Load weight begin. avail mem=139.09 GB
[2026-11-30 06:22:07 TP1] Load weight begin. avail mem=139.09 GB
[2026-11-30 06:22:20 TP0] Load weight end. elapsed=0.11 s, type=KimiK25ForConditionalGeneration
[2026-11-30 06:22:21 TP0] Load weight begin. avail mem=139.09 GB
[2026-11-30 06:22:22 TP0] Load weight end. elapsed=0.11 s, type=LlamaForCausalLMEagle3
[2026-11-30 06:22:23 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 2724754
[2026-11-30 06:22:24 TP0] Memory pool end. avail mem=97.14 GB
[2026-11-30 06:22:25 TP0] Capture target prefill CUDA graph begin. backend=breakable
[2026-11-30 06:22:26 TP0] Capture target verify CUDA graph begin. backend=full
[2026-11-30 06:22:30 TP0] Capture draft decode CUDA graph begin. backend=full
[2026-11-30 06:22:31 TP0] Capture draft extend CUDA graph begin. backend=full
[2026-11-30 06:22:33 TP0] max_total_num_tokens=2724754, chunked_prefill_size=8192, max_prefill_tokens=16384
[2026-11-30 06:22:34] INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)
[2026-11-30 06:22:40] The server is fired up and ready to roll!
"""
OLD = """\
[2026-11-30 06:22:05 TP0] Init torch distributed begin.
[2026-11-30 06:22:07 TP0] Load weight begin. avail mem=139.09 GB
[2026-11-30 06:22:20 TP0] Load weight end. elapsed=0.11 s
[2026-11-30 06:22:24 TP0] Memory pool end. avail mem=97.14 GB
[2026-11-30 06:22:25 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=97 GB
[2026-11-30 06:22:27 TP0] Load weight begin. avail mem=139.09 GB
[2026-11-30 06:22:28 TP0] Memory pool end. avail mem=97.14 GB
[2026-11-30 06:22:30 TP0] Capture draft cuda graph begin. This can take up to several minutes.
[2026-11-30 06:22:40] The server is fired up and ready to roll!
"""


def follow(text: str, *, speculative: bool = True) -> PhaseTracker:
    tracker = PhaseTracker(START, speculative=speculative)
    for line in text.splitlines():
        tracker.feed(line, START + 3600)
    return tracker


def test_phases_with_speculation() -> None:
    tracker = follow(NEW)
    found = [(phase.name, phase.started_s, phase.ended_s) for phase in tracker.phases]
    assert found == [
        ("starting", 0, 5),
        ("distributed_init", 5, 7),
        ("weights", 7, 21),
        ("draft_weights", 21, 22),
        ("memory_pool", 22, 25),
        ("target_graphs", 25, 30),
        ("draft_graphs", 30, 33),
        ("warmup", 33, 40),
        ("serving", 40, None),
    ]
    assert tracker.port_open
    assert not tracker.fatal


def test_phases_of_older_versions() -> None:
    names = [phase.name for phase in follow(OLD).phases]
    expected = ["starting", "distributed_init", "weights", "memory_pool", "target_graphs", "draft_weights"]
    assert names == [*expected, "draft_graphs", "serving"]


def test_phases_without_speculation() -> None:
    text = "\n".join(line for line in NEW.splitlines() if "draft" not in line and "22:21" not in line)
    names = [phase.name for phase in follow(text, speculative=False).phases]
    expected = ["starting", "distributed_init", "weights", "memory_pool", "target_graphs", "warmup", "serving"]
    assert names == expected


@pytest.mark.parametrize("bar", ["Loading safetensors checkpoint shards", "Multi-thread loading shards"])
def test_shards_count_for_the_phase_that_loads_them(bar: str) -> None:
    tracker = follow(
        "[2026-11-30 06:22:07 TP0] Load weight begin. avail mem=139.09 GB\n"
        f"{bar}:   0% Completed | 0/64 [00:00<?, ?it/s]\n"
    )
    assert tracker.shards == (0, 64)
    tracker.feed(f"{bar}:  38% Completed | 24/64 [00:08<00:13,  2.95it/s]", START + 3600)
    assert tracker.shards == (24, 64)
    tracker.feed("[2026-11-30 06:22:20 TP0] Load weight end. elapsed=13.11 s", START + 3600)
    assert tracker.shards == (24, 64)
    tracker.feed("[2026-11-30 06:22:24 TP0] Memory pool end. avail mem=97.14 GB", START + 3600)
    assert tracker.shards is None


def test_newer_wording_of_the_distributed_initialization() -> None:
    assert follow("[2026-11-30 06:22:05 TP0] Init parallel begin.").phase == "distributed_init"


def test_stamps_of_another_clock_are_ignored() -> None:
    tracker = PhaseTracker(START, speculative=True)
    tracker.feed("[2020-01-01 00:00:00 TP0] Init torch distributed begin.", START + 5)
    assert tracker.phase == "distributed_init"
    assert tracker.phases[-1].started_s == 0


def test_stamp() -> None:
    stamp, message = parse_stamp("[2026-11-30 06:22:05 DP0 TP3] Hello")
    assert stamp is not None
    assert (stamp.rank, message) == ("DP0 TP3", "Hello")
    assert parse_stamp("no stamp") == (None, "no stamp")
    assert parse_stamp("[2026-99-30 06:22:05] x") == (None, "[2026-99-30 06:22:05] x")


@pytest.mark.parametrize(
    "line",
    [
        "Scheduler hit an exception: Traceback (most recent call last):",
        "SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        "Received sigquit from a child process. It usually means the child failed.",
        "Subprocess scheduler_0 (pid=689) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
        "Rank 0 scheduler is dead. Please check if there are relevant logs.",
        "Rank 3 scheduler died during initialization (exit code: -9).",
        "Initialization failed. warmup error: x",
        "Watchdog timeout (self.watchdog_timeout=300)",
        "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
        "launch_server.py: error: unrecognized arguments: --x",
    ],
)
def test_fatal(line: str) -> None:
    assert is_fatal(line)
    tracker = PhaseTracker(START, speculative=True)
    tracker.feed(line, START)
    assert tracker.fatal


@pytest.mark.parametrize(
    "line",
    [
        "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)",
        "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
        "Ignore import error when loading sglang.srt.models.mimo_v2: Can not import FA3 in sgl_kernel.",
    ],
)
def test_not_fatal(line: str) -> None:
    assert not is_fatal(line)


def test_lines_out_of_a_progress_bar_with_colours_and_broken_text() -> None:
    assembler = LineAssembler()
    lines = assembler.feed(b"  0%|   | 0/2\r 50%|#  | 1/2\r\n\x1b[32mgreen\x1b[0m\n\xff\xfe bad\nrest")
    assert lines == ["  0%|   | 0/2", " 50%|#  | 1/2", "green", "�� bad"]
    assert assembler.rest() == ["rest"]
    assert assembler.rest() == []


def test_an_endless_line_is_cut() -> None:
    assembler = LineAssembler()
    lines = assembler.feed(b"x" * (MAX_LINE_BYTES + 10))
    assert [len(line) for line in lines] == [MAX_LINE_BYTES]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6))
def test_where_the_bytes_are_cut_does_not_matter(data: bytes, cuts: list[int]) -> None:
    whole = LineAssembler()
    expected = whole.feed(data) + whole.rest()
    pieces = LineAssembler()
    found: list[str] = []
    places = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    for begin, end in itertools.pairwise(places):
        found += pieces.feed(data[begin:end])
    assert found + pieces.rest() == expected


@pytest.mark.parametrize(
    "line",
    [
        "sglang-1  | message",
        "(SGLangEngine pid=12) message [repeated 2x across cluster]",
        "ERROR 01-01 00:17:48 [core.py:502] message",
        "ERROR:    message",
    ],
)
def test_what_collectors_add(line: str) -> None:
    assert strip_collector(line) == "message"


def test_of_a_progress_bar_the_last_state_is_kept() -> None:
    lines = [
        "Capture draft decode CUDA graph begin.",
        "  0%|          | 0/8 [00:00<?, ?it/s]",
        "Capturing batches (bs=8 avail_mem=97.21 GB):  12%|█▎        | 1/8 [00:00<00:07,  7.56it/s]",
        "Capturing batches (bs=1 avail_mem=97.18 GB): 100%|██████████| 8/8 [00:02<00:00,  2.99it/s]",
        "Capture draft decode CUDA graph end.",
        "Multi-thread loading shards:   0% Completed | 0/2 [00:00<?, ?it/s]",
        "Multi-thread loading shards: 100% Completed | 2/2 [00:00<00:00,  2.20it/s]",
        "Decode batch, #running-req: 1, token usage: 12%",
    ]
    assert without_progress(lines) == [lines[0], *lines[3:5], *lines[6:]]


def test_what_is_written_behind_a_progress_bar_is_kept() -> None:
    lines = [
        "Capturing batches (bs=1):  88%|████████▊ | 7/8 [00:03<00:00,  2.21it/s]RuntimeError: no memory",
        "Capturing batches (bs=1): 100%|██████████| 8/8 [00:03<00:00,  2.28it/s]",
        "model.safetensors: 100%|██████████| 1.20G/4.00G [00:03<00:00, 380MB/s]",
    ]
    assert without_progress(lines) == [lines[0], lines[2]]


@pytest.mark.parametrize("part", ["9", "1%|", "5%|1/1 ", "0% Completed | 1/1 ["])
def test_a_long_line_is_no_progress_bar_and_takes_no_time(part: str) -> None:
    began = time.process_time()
    line = part * (65536 // len(part))
    assert without_progress([line, line]) == [line, line]
    assert time.process_time() - began < 1.0
