from __future__ import annotations

import io
import tracemalloc

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import (
    CHUNK_BYTES,
    LogReader,
    diagnose_file,
)

START = "[2026-01-01 00:00:00] server_args=ServerArgs(speculative_num_draft_tokens=4)\n"
LOAD = "[2026-01-01 00:00:10 TP0] Load weight begin. avail mem=94.00 GB\n"
READY = "[2026-01-01 00:06:10] The server is fired up and ready to roll!\n"
DECODE = (
    "[2026-01-01 00:07:{second:02} TP0] Decode batch, #running-req: 1, #token: 9, token usage: 0.01, "
    "accept len: {length}, accept rate: 0.62, cuda graph: True, gen throughput (token/s): 71.23, #queue-req: 0\n"
)
CRASH = (
    "[2026-01-01 09:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
    "ValueError: Detected errors during sampling! NaN in the logits.\n"
)


def serving(count: int, length: float = 2.85) -> str:
    return "".join(DECODE.format(second=index % 60, length=length) for index in range(count))


@pytest.mark.parametrize("size", [1, 37, 1000, CHUNK_BYTES])
def test_chunks_may_be_cut_anywhere(size: int) -> None:
    log = (START + LOAD + READY + serving(5) + CRASH).encode()
    reader = LogReader()
    for begin in range(0, len(log), size):
        reader.feed(log[begin : begin + size])
    diagnosis = reader.result()
    assert (diagnosis.failure_class, diagnosis.line_number, diagnosis.rank) == ("nan-logits", 10, "TP3")


def test_the_line_number_in_a_large_log() -> None:
    text = START + LOAD + READY + serving(20_000) + CRASH
    diagnosis = diagnose_file(io.BytesIO(text.encode()))
    assert diagnosis.failure_class == "nan-logits"
    assert diagnosis.line_number == text.count("\n")


def test_memory_is_bounded() -> None:
    noise = "".join(f"[2026-01-01 00:08:00 TP0] KV cache pool is full. Error {'x' * 300}\n" for _ in range(1000))
    block = (serving(1000) + noise).encode()
    reader = LogReader()
    reader.feed((START + LOAD + READY).encode())
    tracemalloc.start()
    for _ in range(80):
        reader.feed(block)
    reader.feed(CRASH.encode())
    assert reader.result().failure_class == "nan-logits"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000_000


def test_only_the_last_launch_counts() -> None:
    first = START + LOAD + CRASH
    second = (START + LOAD + READY).replace("01 00:", "02 00:") + serving(5).replace("01 00:", "02 00:")
    assert diagnose_file(io.BytesIO((first + second).encode())).failure_class == "healthy"
    assert diagnose_file(io.BytesIO((second + second + first.replace("01 0", "03 0")).encode())).is_problem


def test_a_large_log_of_a_draft_that_is_not_accepted() -> None:
    text = START + LOAD + READY + serving(20_000, 1.0)
    assert diagnose_file(io.BytesIO(text.encode())).failure_class == "draft-unwired"


def test_a_windows_terminal_writes_two_bytes_a_character() -> None:
    assert diagnose_file(io.BytesIO(CRASH.encode("utf-16"))).failure_class == "nan-logits"


def test_no_line_end_at_all() -> None:
    bar = b"Loading safetensors checkpoint shards:  10% Completed | 1/11\r" * 50_000
    diagnosis = diagnose_file(io.BytesIO(bar))
    assert (diagnosis.failure_class, diagnosis.phase) == ("unknown", "weights")


def test_many_different_lines_do_not_pile_up() -> None:
    reader = LogReader()
    reader.feed(b"x\n" * 200_000)
    for begin in range(3):
        reader.feed("".join(f"Error {chr(0x4E00 + n)}{begin}{'a' * (n % 300)}{n:x}\n" for n in range(8_000)).encode())
    assert len(reader._shapes) <= 20_000
    assert reader.result().failure_class == "unknown"
