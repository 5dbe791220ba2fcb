from __future__ import annotations

import hashlib
import socket
from typing import TYPE_CHECKING

import pytest

from controller.load.client import parse_target, run_workload
from controller.load.workload import Prompt, Workload, WorkloadError
from tests.unit.controller.load.scripted_server import (
    END,
    STREAM_HEAD,
    answer,
    chunk,
    event,
    plain,
    serving,
)

if TYPE_CHECKING:
    from controller.load.records import RequestRecord

PROMPTS = tuple(Prompt(id=100 + number, category="", text=f"prompt {number}") for number in range(40))


def workload(**fields: object) -> Workload:
    return Workload("test", PROMPTS, **{"prompts_per_run": 4, "repeats": 2, **fields})  # type: ignore[arg-type]


def ask(parts: list[object], **more: object) -> list[RequestRecord]:
    with serving(lambda *_: parts) as server:  # type: ignore[arg-type]
        return run_workload(
            server.url,
            workload(prompts_per_run=1),
            **{"run": 0, "concurrency": 1, **more},  # type: ignore[arg-type]
        )


def test_a_run() -> None:
    seen: list[RequestRecord] = []
    with serving(lambda *_: answer(9, gap=0.02)) as server:
        records = run_workload(
            server.url, workload(), run=1, concurrency=1, api_key="key", on_request=seen.append, timeout=10
        )
    assert records == seen
    assert [record.prompt_id for record in records] == [106, 107, 108, 109]
    first = records[0]
    assert (first.run, first.warmup, first.error, first.concurrency) == (1, False, None, 1)
    assert (first.prompt_tokens, first.completion_tokens, first.verify_steps) == (7, 9, 4)
    assert first.accept_histogram == [0, 4]
    assert first.first_chunk_tokens == 1
    assert first.text_sha256 == hashlib.sha256(b"x" * 9).hexdigest()
    assert 0.079 < first.decode_s < 0.5  # four pauses of 20 ms; a busy machine may add to them
    assert first.e2e_s == pytest.approx(first.ttft_s + first.decode_s)
    assert first.inter_token_s.count == 4
    assert records[1].started_s >= first.e2e_s
    path, headers, body = server.requests[0]
    assert path == "/generate"
    assert headers["authorization"] == "Bearer key"
    assert body["stream"] is True
    assert body["sampling_params"] == {"temperature": 0.0, "max_new_tokens": 256, "ignore_eos": False}


def test_without_speculation() -> None:
    (record,) = ask(answer(9, verify=None))  # type: ignore[arg-type]
    assert (record.error, record.verify_steps, record.accept_histogram) == (None, None, None)


def test_warm_up_asks_other_prompts() -> None:
    with serving(lambda *_: answer()) as server:
        records = run_workload(server.url, workload(), run=0, warmup=True, concurrency=1)
    assert [record.prompt_id for record in records] == [100, 101]
    assert all(record.warmup for record in records)


def test_the_time_scale_is_divided_out() -> None:
    (record,) = ask(answer(9, gap=0.02), time_scale=0.1)  # type: ignore[arg-type]
    assert 0.79 < record.decode_s < 5
    with pytest.raises(ValueError, match="time scale is 0"):
        ask([], time_scale=0.0)


def test_concurrency_is_kept() -> None:
    load = workload(concurrency_levels=(5,), prompts_per_run=10, repeats=1)
    with serving(lambda *_: answer(9, gap=0.01)) as server:
        records = run_workload(server.url, load, run=0, concurrency=5)
    assert len(records) == 10
    assert server.most_open == 5
    assert {record.concurrency for record in records} == {5}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (plain("401 Unauthorized", b'{"error":"Unauthorized"}'), "answered 401: .*Unauthorized"),
        (plain("503 Service Unavailable", b""), r"answered 503\.$"),
        ([STREAM_HEAD, chunk(event(1)), chunk(event(3)), None], "closed before the answer was complete"),
        ([STREAM_HEAD, chunk(event(1)), END], "ended before the answer was finished"),
        ([STREAM_HEAD, END], "ended before the answer was finished"),
        ([STREAM_HEAD, chunk(event(9, finish={"type": "length"})), END], "ended before"),
        ([STREAM_HEAD, chunk(b"data: {nonsense\n\n"), END], "not JSON"),
        ([STREAM_HEAD, chunk(b"data: [1]\n\n"), END], "not a JSON object"),
        ([STREAM_HEAD, chunk(b'data: {"error": {"message": "too long"}}\n\n'), END], "reported an error: too long"),
        ([STREAM_HEAD, chunk(b'data: {"error": "bad"}\n\n'), END], "reported an error: bad"),
        (
            [STREAM_HEAD, chunk(event(2, finish={"type": "abort", "message": "cut"})), chunk(b"data: [DONE]\n\n"), END],
            "aborted the request: cut",
        ),
        (
            [STREAM_HEAD, chunk(event(1, finish={"type": "stop"})), chunk(b"data: [DONE]\n\n"), END],
            "fewer than two tokens",
        ),
        ([b"SSH-2.0-OpenSSH\r\n\r\n"], "not HTTP/1.1"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"], "not HTTP/1.1"),
        ([b"x" * 70_000], "not HTTP/1.1"),
        ([STREAM_HEAD + b"1" * 70_000], "not HTTP/1.1"),
        ([None], "closed before"),
    ],
)
def test_failures_are_records(parts: list[object], words: str) -> None:
    (record,) = ask(parts)
    assert record.error is not None
    assert record.error.endswith((".", "}", "bad", "too long", '"'))
    import re  # noqa: PLC0415

    assert re.search(words, record.error), record.error


def test_a_server_that_died_leaves_what_had_arrived() -> None:
    (record,) = ask([STREAM_HEAD, chunk(event(1)), 0.02, chunk(event(5, verify=2)), None])
    assert record.error is not None
    assert (record.completion_tokens, record.verify_steps) == (5, 2)
    assert record.decode_s > 0.01


def test_a_server_that_is_silent_times_out() -> None:
    (record,) = ask([STREAM_HEAD, 5.0], timeout=0.1)
    assert record.error == "No complete answer within 0.1 s."


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    records = run_workload(f"http://127.0.0.1:{port}", workload(), run=0, concurrency=1)
    assert len(records) == 4
    assert all(record.error and record.error.startswith(f"No connection to 127.0.0.1:{port}") for record in records)
    assert {record.ttft_s for record in records} == {0.0}


def test_a_host_that_is_not_known() -> None:
    (record, *_) = run_workload("http://nowhere.invalid:1", workload(), run=0, concurrency=1)
    assert record.error is not None
    assert record.error.startswith("No connection to nowhere.invalid:1")


def test_an_answer_without_length_ends_with_the_connection() -> None:
    body = event(1) + event(9, verify=4, finish={"type": "length"}) + b"data: [DONE]\n\n"
    (record,) = ask([b"HTTP/1.1 200 OK\r\n\r\n" + body])
    assert record.error is None
    assert record.completion_tokens == 9


def test_joined_chunks_are_seen() -> None:
    (record,) = ask(
        [STREAM_HEAD, chunk(event(5)), 0.01, chunk(event(9, finish={"type": "length"}) + b"data: [DONE]\n\n"), END]
    )
    assert record.error is None
    assert record.first_chunk_tokens == 5


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "ftp://host", "http://", ""])
def test_refuses_addresses(address: str) -> None:
    with pytest.raises(ValueError, match="expected http://host:port"):
        parse_target(address)


def test_addresses() -> None:
    assert parse_target("http://host").port == 80
    secure = parse_target("https://host/prefix/")
    assert (secure.port, secure.path_prefix) == (443, "/prefix")
    assert secure.tls is not None
    assert parse_target("http://[::1]:8000").host == "::1"


def test_refuses_a_run_that_is_not_planned() -> None:
    with pytest.raises(WorkloadError, match="run 2 at 1"):
        run_workload("http://127.0.0.1:1", workload(), run=2, concurrency=1)
