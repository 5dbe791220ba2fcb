"""How far off the load generator itself is, and what it costs.

A server of known timing (``timed_server.py``, its own process) says when it received each request and sent each part;
the differences to what the client recorded are the client's own error. ``--client httpx`` measures the same with httpx.

    .venv/bin/python tests/bench/bench_load.py [--concurrency 1 8 32 128] [--client own httpx]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from controller.load import client as load_client  # noqa: E402
from controller.load.stream import StreamResult, post_stream  # noqa: E402
from controller.load.workload import Prompt, Workload  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from controller.load.records import RequestRecord
    from controller.load.stream import Target

    Post = Callable[..., Awaitable[StreamResult]]


async def httpx_post_stream(
    target: Target, path: str, body: dict[str, Any], *, headers: dict[str, str], timeout_s: float
) -> StreamResult:
    """The same request with httpx, for comparison."""
    result = StreamResult()
    session = shared_session(asyncio.get_running_loop())
    result.sent = time.perf_counter()
    url = f"http://{target.host}:{target.port}{path}"
    async with session.stream("POST", url, json=body, headers=headers, timeout=timeout_s) as response:
        result.status = response.status_code
        async for line in response.aiter_lines():
            now = time.perf_counter()
            if not line.startswith("data:"):
                continue
            payload = line[5:].strip().encode()
            if payload == b"[DONE]":
                result.finished = True
                continue
            result.arrivals.append(now)
            result.first_event = result.first_event or payload
            result.last_event = payload
    return result


@functools.cache
def shared_session(_loop: asyncio.AbstractEventLoop) -> Any:
    """Return one session for all requests of a run: making one costs more than a request."""
    import httpx  # noqa: PLC0415

    return httpx.AsyncClient(trust_env=False, limits=httpx.Limits(max_connections=None))


def watched(post: Post, seen: dict[str, StreamResult]) -> Post:
    """Return ``post``, keeping its results by prompt."""

    async def post_stream(
        target: Target, path: str, body: dict[str, Any], *, headers: dict[str, str], timeout_s: float
    ) -> StreamResult:
        seen[body["text"]] = result = await post(target, path, body, headers=headers, timeout_s=timeout_s)
        return result

    return post_stream


@contextlib.contextmanager
def timed_server(*, chunks: int, gap_ms: float, ttft_ms: float) -> Iterator[int]:
    """Run the server of known timing and give its port."""
    command = [sys.executable, str(Path(__file__).with_name("timed_server.py"))]
    command += ["--chunks", str(chunks), "--gap-ms", str(gap_ms), "--ttft-ms", str(ttft_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def cpu_s() -> float:
    """Return the processor time this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(post: Post, concurrency: int, *, chunks: int, gap_ms: float, ttft_ms: float) -> dict[str, float]:
    """Run one level and compare each record with what the server knows."""
    seen: dict[str, StreamResult] = {}
    size = max(8, 2 * concurrency)
    prompts = tuple(Prompt(id=number, category="", text=f"prompt {number}") for number in range(size))
    workload = Workload(
        "bench", prompts, concurrency_levels=(concurrency,), repeats=1, prompts_per_run=8, warmup_prompts=0
    )
    with timed_server(chunks=chunks, gap_ms=gap_ms, ttft_ms=ttft_ms) as port:
        cpu, wall = cpu_s(), time.perf_counter()
        with mock.patch.object(load_client, "post_stream", watched(post, seen)):
            records = load_client.run_workload(f"http://127.0.0.1:{port}", workload, run=0, concurrency=concurrency)
        cpu, wall = cpu_s() - cpu, time.perf_counter() - wall
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/timings") as answer:
            timings = json.load(answer)
    failed = [record.error for record in records if record.error]
    if failed:
        raise SystemExit(f"{len(failed)} requests failed: {failed[0]}")
    return {"cpu_share": cpu / wall, "chunks_per_s": size * chunks / wall, **errors(records, timings, seen)}


def errors(
    records: list[RequestRecord], timings: dict[str, dict[str, float]], seen: dict[str, StreamResult]
) -> dict[str, float]:
    """Return the errors of the pooled speed and of single requests' speed (%), and of the time to first token (ms).

    The true time to first token runs from handing the request to the socket until the server sent the first chunk;
    ``until_read`` is how long the server took to read the request, a part of it that a server owns.
    """
    decode = [timings[text]["last"] - timings[text]["first"] for text in seen]
    by_text = {f"prompt {record.prompt_id}": record for record in records}
    late = sorted(
        (by_text[text].ttft_s - (timings[text]["first"] - result.sent)) * 1000 for text, result in seen.items()
    )
    until_read = [(timings[text]["received"] - result.sent) * 1000 for text, result in seen.items()]
    single = [abs(known / by_text[text].decode_s - 1) * 100 for text, known in zip(seen, decode, strict=True)]
    return {
        "speed_error": (math.fsum(decode) / math.fsum(record.decode_s for record in records) - 1) * 100,
        "worst_speed_error": max(single),
        "ttft_error_p50": statistics.median(late),
        "ttft_error_p95": late[math.ceil(0.95 * len(late)) - 1],
        "ttft_error_max": late[-1],
        "until_read_p50": statistics.median(until_read),
    }


def main() -> None:
    """Print one line a level and client."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--client", choices=["own", "httpx"], nargs="+", default=["own"])
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--gap-ms", type=float, default=30.0)
    parser.add_argument("--ttft-ms", type=float, default=100.0)
    options = parser.parse_args()
    clients = {"own": post_stream, "httpx": httpx_post_stream}
    print(f"{os.cpu_count()} CPUs, load before: {os.getloadavg()[0]:.2f}; chunk every {options.gap_ms:g} ms per stream")
    print(
        "client concurrency chunks/s  CPU share | tok/s error %: pooled  worst |"
        " TTFT error ms: p50   p95   max | read by server ms"
    )
    for name in options.client:
        for concurrency in options.concurrency:
            found = measure(
                clients[name], concurrency, chunks=options.chunks, gap_ms=options.gap_ms, ttft_ms=options.ttft_ms
            )
            print(
                f"{name:6} {concurrency:11d} {found['chunks_per_s']:8.0f}  {found['cpu_share']:9.2f} |"
                f" {found['speed_error']:+21.3f} {found['worst_speed_error']:6.3f} |"
                f" {found['ttft_error_p50']:18.2f} {found['ttft_error_p95']:5.2f} {found['ttft_error_max']:5.2f} |"
                f" {found['until_read_p50']:17.2f}"
            )
    print(f"load after: {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
