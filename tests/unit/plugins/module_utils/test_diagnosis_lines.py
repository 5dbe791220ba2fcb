from __future__ import annotations

import json

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis import diagnose_text
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_lines import LogLine, parse_line, read_lines
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_order import is_newest_first, oldest_first

MESSAGE = "Load weight begin. avail mem=94.10 GB"
STAMPED = f"[2026-01-01 00:01:00 TP3] {MESSAGE}"
TRACE = "    raise ValueError("


@pytest.mark.parametrize(
    "text",
    [
        STAMPED,
        f"sglang-1  | {STAMPED}",
        f"(SGLangEngine pid=77, ip=10.0.0.1) {STAMPED}",
        f"{STAMPED} [repeated 2x across cluster]",
        f"\x1b[32m{STAMPED}\x1b[0m",
        f"2026-01-01T00:01:00.123456789Z stderr F {STAMPED}",
        f"[2026-01-01T00:01:00+08:00] job-1 >> (SGLangEngine pid=3) {STAMPED}",
        f"[pod/sglang-0/sglang] {STAMPED}",
        f"Jan 01 00:01:00 node python3[77]: {STAMPED}",
        f"ERROR 01-01 00:01:00 [core.py:502] {STAMPED}",
        json.dumps({"log": STAMPED + "\n", "stream": "stderr", "time": "2026-01-01T00:01:00Z"}),
        json.dumps({"MESSAGE": STAMPED}),
        f"[2026-01-01 00:01:00] [2026-01-01 00:01:00 TP3] {MESSAGE}",
    ],
)
def test_a_stamped_line(text: str) -> None:
    line = parse_line(7, text)
    assert (line.number, line.message, line.rank) == (7, MESSAGE, "TP3")
    assert line.time == "2026-01-01 00:01:00"


@pytest.mark.parametrize("prefix", ["sglang-1  | ", "(Engine pid=7) ", "[rank3]: ", "[1,3]<stderr>:", "[pod/a/b] "])
def test_a_line_of_a_traceback_keeps_its_indentation(prefix: str) -> None:
    assert parse_line(1, prefix + TRACE).message == TRACE


def test_the_rank_of_torchs_own_prefix() -> None:
    assert parse_line(1, "[rank12]: ValueError: x") == LogLine(1, "ValueError: x", "", "TP12")


@pytest.mark.parametrize("text", ["[gpu_id=3] x", "[01-01 01:10:40] x", "[19:01:01 DP0 TP1] x"])
def test_old_stamps(text: str) -> None:
    assert parse_line(1, text).message == "x"


def test_json_that_is_none() -> None:
    assert parse_line(1, '{"log": broken').message == '{"log": broken'
    assert parse_line(1, '{"a": 1}').message == '{"a": 1}'
    assert parse_line(1, '{"a":' * 100_000).message.startswith('{"a":')


def test_a_progress_bar_is_several_lines() -> None:
    assert [line.message for line in read_lines(3, b"10%\r20%\r\xff30%\r")] == ["10%", "20%", "\ufffd30%"]


@pytest.mark.parametrize(
    "texts",
    [
        ["[2026-01-01 00:00:01] a", "[2026-01-01 00:00:02] b", "[2026-01-01 00:00:03] c"],
        ["2026-01-01T00:00:01.000Z a", "2026-01-01T00:00:02.000Z b"],
        ["Traceback (most recent call last):", '  File "a.py", line 1, in a', "    b()", "ValueError: x"],
    ],
)
def test_order(texts: list[str]) -> None:
    lines = [parse_line(number, text) for number, text in enumerate(texts)]
    assert not is_newest_first(lines)
    assert is_newest_first(lines[::-1])
    assert oldest_first(lines[::-1]) == oldest_first(lines) == lines


def test_no_order_is_the_order_of_the_file() -> None:
    lines = [parse_line(number, text) for number, text in enumerate(["[gpu_id=1] a", "[gpu_id=0] b", "c"])]
    assert oldest_first(lines) == lines


def test_newest_first_tells_the_first_rank() -> None:
    texts = [
        "[2026-01-01 00:00:01 TP3] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/srv/scheduler.py", line 1, in run_scheduler_process',
        "KeyError: 'layers.0.mlp.down_proj.weight_scale'",
        "[2026-01-01 00:00:02 TP5] Scheduler hit an exception: Traceback (most recent call last):",
        "RuntimeError: NCCL error: unhandled system error",
    ]
    diagnosis = diagnose_text(texts[::-1])
    assert (diagnosis.failure_class, diagnosis.rank, diagnosis.line_number) == ("draft-keys", "TP3", 3)
