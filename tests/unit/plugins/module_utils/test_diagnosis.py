"""Whole logs, one file a log in tests/data/diagnosis, the expected class in their first line."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis import diagnose_text, known_failure
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import CLASSES
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import diagnose_file

DATA = Path(__file__).parents[3] / "data" / "diagnosis"
LOGS = sorted(DATA.glob("*.log"))
STAMP = "[2026-01-01 00:04:42{rank}] "
CONTEXT = (
    "ValueError: Warning: Target model's context_length (262144) is greater than the derived context_length (131072). "
    "This may lead to incorrect model outputs or CUDA errors."
)
OOM = "CUDA out of memory. Tried to allocate 448.00 MiB. GPU 7 has a total capacity of 95.00 GiB"
PEER = "Exception: Capture cuda graph failed: [../gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1"
STRAGGLER = (
    "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading."
)


def read(path: Path) -> tuple[str, bytes]:
    head, _, body = path.read_bytes().partition(b"\n")
    return head.decode().removeprefix("# expect="), body


def crash(message: str, rank: str = " TP0", source: str = "raise ValueError(") -> list[str]:
    return [
        STAMP.format(rank=rank) + "Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/opt/sglang/srt/managers/scheduler.py", line 3049, in run_scheduler_process',
        f"    {source}",
        *message.splitlines(),
        "",
        STAMP.format(rank="") + "Received sigquit from a child process. It usually means the child failed.",
    ]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_class_of_a_log(path: Path) -> None:
    expected, body = read(path)
    diagnosis = diagnose_file(io.BytesIO(body))
    assert diagnosis.failure_class == expected
    assert diagnosis.runbook == f"docs/runbooks/{expected}.md"
    assert diagnosis.is_problem == (expected != "healthy")


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_lines_and_files_give_the_same(path: Path) -> None:
    body = read(path)[1]
    assert diagnose_text(body.decode().split("\n")) == diagnose_file(io.BytesIO(body))


def test_every_class_has_three_logs() -> None:
    counts = Counter(read(path)[0] for path in LOGS)
    assert set(counts) == set(CLASSES)
    assert min(counts.values()) >= 3


PHASES = {
    "draft-context-kimi": "draft_weights",
    "graph-oom-draft-graphs": "draft_graphs",
    "graph-oom-old-words": "target_graphs",
    "healthy-baseline": "serving",
    "host-oom-died": "weights",
    "host-oom-kernel": "unknown",
    "kv-oom-increase": "memory_pool",
    "nccl-system-torch": "distributed_init",
    "unknown-killed-while-serving": "serving",
    "unknown-stalled": "target_graphs",
    "unknown-truncated": "draft_weights",
    "warmup-status": "warmup",
    "watchdog-named": "serving",
}


@pytest.mark.parametrize("name", PHASES)
def test_phase_of_a_log(name: str) -> None:
    assert diagnose_file(io.BytesIO(read(DATA / f"{name}.log")[1])).phase == PHASES[name]


def test_the_document() -> None:
    document = diagnose_text(crash(CONTEXT, " TP3")).document()
    assert document == {
        "class": "draft-context",
        "phase": "starting",
        "cause": CONTEXT,
        "remedy": CLASSES["draft-context"].remedy,
        "confidence": "high",
        "version": None,
        "line_number": 4,
        "rank": "TP3",
        "runbook": "docs/runbooks/draft-context.md",
    }


@pytest.mark.parametrize(
    ("begin", "failure_class", "words"),
    [
        ("", "kv-oom", "free the GPUs"),
        ("Capture target verify CUDA graph begin. backend=full", "graph-oom", "lower"),
        ("The server is fired up and ready to roll!", "kv-oom", "lower"),
    ],
)
def test_the_phase_decides_what_out_of_memory_means(begin: str, failure_class: str, words: str) -> None:
    diagnosis = diagnose_text([STAMP.format(rank=" TP0") + begin, *crash(f"torch.OutOfMemoryError: {OOM}")])
    assert (diagnosis.failure_class, diagnosis.remedy.split(" ")[0]) == (failure_class, words.split(" ", maxsplit=1)[0])


def test_the_pool_wants_more_where_graphs_want_less() -> None:
    pool = diagnose_text(
        [
            STAMP.format(rank=" TP0") + "Memory pool end. avail mem=1 GB",
            *crash("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
        ]
    )
    assert pool.remedy.startswith("raise sglang_server_mem_fraction_static")


def test_the_first_failing_rank_decides() -> None:
    later = crash("RuntimeError: NCCL error: unhandled system error", " TP5")
    assert diagnose_text(crash(CONTEXT, " TP3") + later).failure_class == "draft-context"
    unknown_first = diagnose_text(crash("RuntimeError: something new", " TP3") + later)
    assert (unknown_first.failure_class, unknown_first.cause) == ("unknown", "RuntimeError: something new")
    assert unknown_first.rank == "TP3"


def test_a_later_cause_beats_an_earlier_consequence() -> None:
    assert diagnose_text([*crash(PEER), *crash(f"Exception: Capture cuda graph failed: {OOM}", " TP7")]).rank == "TP7"
    assert diagnose_text([*crash(STRAGGLER), *crash(CONTEXT)]).failure_class == "draft-context"
    assert diagnose_text([*crash(STRAGGLER), "Exit code: -9"]).failure_class == "host-oom"


def test_what_only_follows_is_never_sure() -> None:
    assert diagnose_text(crash(PEER)).confidence == "low"
    assert diagnose_text(crash(STRAGGLER)).confidence == "medium"
    assert diagnose_text([STAMP.format(rank="") + "SIGQUIT received. signum=None"]).failure_class == "unknown"


def test_two_causes_are_not_sure() -> None:
    diagnosis = diagnose_text([*crash(CONTEXT), *crash("OSError: [Errno 98] Address already in use", " TP1")])
    assert (diagnosis.failure_class, diagnosis.confidence) == ("draft-context", "medium")


@pytest.mark.parametrize(
    "error", ["EOFError", "requests.exceptions.ConnectionError: refused", "RuntimeError: see above"]
)
def test_an_exception_that_follows_from_another(error: str) -> None:
    diagnosis = diagnose_text([error, *crash(CONTEXT)])
    assert diagnosis.failure_class == "draft-context"


def test_the_source_line_of_a_raise_is_not_the_sentence() -> None:
    lines = crash("RuntimeError: NCCL error: x", source='raise RuntimeError(f"NCCL error: {error_str}")')
    assert diagnose_text(lines).cause == "RuntimeError: NCCL error: x"


def test_the_servers_arguments_are_not_searched() -> None:
    noise = "[2026-01-01 00:00:00] server_args=ServerArgs(model='EADDRINUSE CUDA out of memory')"
    assert diagnose_text([noise]).failure_class == "unknown"
    assert diagnose_text([]).cause == ""


def test_a_server_that_went_on_serving_did_not_fail() -> None:
    ready = STAMP.format(rank="") + "The server is fired up and ready to roll!"
    answered = STAMP.format(rank="") + 'INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK'
    lines = [ready, "Traceback (most recent call last):", "ValueError: a client's fault", answered]
    assert diagnose_text(lines).failure_class == "healthy"
    assert diagnose_text([*lines, "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", answered]).is_problem


def test_a_death_without_an_exception_is_told() -> None:
    ready = STAMP.format(rank="") + "The server is fired up and ready to roll!"
    died = STAMP.format(rank="") + "Subprocess scheduler_0 (pid=9) crashed with exit code -11. Triggering SIGQUIT"
    diagnosis = diagnose_text([ready, died])
    assert (diagnosis.failure_class, diagnosis.phase) == ("unknown", "serving")
    assert "exit code -11" in diagnosis.cause


@pytest.mark.parametrize("text", ["sglang==0.5.9", "SGLang v0.5.9", "lmsysorg/sglang:v0.5.9", "sglang-0.5.9.dist-info"])
def test_version(text: str) -> None:
    assert diagnose_text([f"[2026-01-01 00:00:00] {text}", *crash(CONTEXT)]).version == "0.5.9"


def test_what_was_seen_elsewhere() -> None:
    diagnosis = known_failure("port-in-use", "pid 7 holds it", "warmup", "end it")
    assert (diagnosis.remedy, diagnosis.confidence, diagnosis.phase) == ("end it", "high", "warmup")
    assert known_failure("xid", "x").remedy == CLASSES["xid"].remedy
