"""Runs a workload against a server and returns one record a request.

Failed requests are records with an ``error``, never exceptions: that a server died is a result of a sweep.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import ssl
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from controller.load.meta import GenerationMeta, read_meta
from controller.load.records import InterTokenSummary, RequestRecord
from controller.load.server import flush_cache, server_info
from controller.load.stream import StreamResult, Target, post_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.load.workload import Prompt, Workload

__all__ = ["flush_cache", "parse_target", "read_meta", "run_workload", "server_info"]

GENERATE = "/generate"
NO_META = read_meta({})


def run_workload(
    base_url: str,
    workload: Workload,
    *,
    run: int,
    warmup: bool = False,
    concurrency: int,
    time_scale: float = 1.0,
    api_key: str | None = None,
    on_request: Callable[[RequestRecord], None] | None = None,
    timeout: float = 600.0,
) -> list[RequestRecord]:
    """Ask the prompts of one run, ``concurrency`` at a time, and return their records in the order of the prompts.

    Args:
        base_url: ``http://host:port`` of the server.
        workload: What is asked.
        run: Index of the run; each run has prompts of its own.
        warmup: Ask the warm-up prompts instead; their records carry ``warmup=True``.
        concurrency: One of the workload's levels.
        time_scale: Time scale of a simulated server; every time is divided by it. 1.0 for a real server.
        api_key: Sent as bearer token when given.
        on_request: Called with each record as soon as it is there.
        timeout: Seconds on the wire after which a request counts as failed.

    Raises:
        WorkloadError: the plan has no such run or level.
        ValueError: the address cannot be used, or the time scale is not positive.
    """
    if time_scale <= 0:
        message = f"The time scale is {time_scale}; it must be positive (1.0 for a real server)."
        raise ValueError(message)
    prompts = workload.select(run=run, concurrency=concurrency, warmup=warmup)
    job = _Job(
        target=parse_target(base_url),
        workload=workload,
        run=run,
        warmup=warmup,
        concurrency=concurrency,
        time_scale=time_scale,
        headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        on_request=on_request,
        timeout=timeout,
    )
    return asyncio.run(job.ask_all(prompts))


def parse_target(base_url: str) -> Target:
    """Return where a base URL points.

    Raises:
        ValueError: it is not an http(s) address with a host.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        message = f"The address {base_url!r} is not usable; expected http://host:port."
        raise ValueError(message)
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    return Target(parts.hostname, port, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), tls)


class _Job:
    """One run in progress."""

    def __init__(
        self,
        *,
        target: Target,
        workload: Workload,
        run: int,
        warmup: bool,
        concurrency: int,
        time_scale: float,
        headers: dict[str, str],
        on_request: Callable[[RequestRecord], None] | None,
        timeout: float,
    ) -> None:
        self._target = target
        self._workload = workload
        self._run = run
        self._warmup = warmup
        self._concurrency = concurrency
        self._time_scale = time_scale
        self._headers = headers
        self._on_request = on_request
        self._timeout = timeout
        self._started = 0.0

    async def ask_all(self, prompts: tuple[Prompt, ...]) -> list[RequestRecord]:
        """Keep ``concurrency`` requests in flight until every prompt was asked."""
        waiting = iter(enumerate(prompts))
        self._started = time.perf_counter()
        records: dict[int, RequestRecord] = {}

        async def stream() -> None:
            for place, prompt in waiting:
                records[place] = await self._ask(prompt)

        await asyncio.gather(*(stream() for _ in range(min(self._concurrency, len(prompts)))))
        return [records[place] for place in range(len(prompts))]

    async def _ask(self, prompt: Prompt) -> RequestRecord:
        body = {
            "text": self._workload.text_of(prompt),
            "sampling_params": self._workload.sampling_params(),
            "stream": True,
        }
        result = await post_stream(self._target, GENERATE, body, headers=self._headers, timeout_s=self._timeout)
        record = self._record(prompt, result)
        if self._on_request is not None:
            self._on_request(record)
        return record

    def _record(self, prompt: Prompt, result: StreamResult) -> RequestRecord:
        meta, text, problem = _read_event(result.last_event)
        first_meta, _, _ = _read_event(result.first_event)
        error = _error_of(result, meta, problem)
        scale, arrivals = self._time_scale, result.arrivals
        ttft = (arrivals[0] - result.sent) / scale if arrivals else 0.0
        e2e = (arrivals[-1] - result.sent) / scale if arrivals else 0.0
        gaps = [(later - earlier) / scale for earlier, later in itertools.pairwise(arrivals)]
        return RequestRecord(
            prompt_id=prompt.id,
            run=self._run,
            warmup=self._warmup,
            started_s=(result.sent - self._started) / scale,
            ttft_s=ttft,
            e2e_s=e2e,
            decode_s=e2e - ttft,
            prompt_tokens=meta.prompt_tokens,
            completion_tokens=meta.completion_tokens,
            verify_steps=meta.verify_steps,
            accept_histogram=meta.accept_histogram,
            inter_token_s=InterTokenSummary.of(gaps),
            text_sha256=hashlib.sha256(text.encode()).hexdigest(),
            error=error,
            concurrency=self._concurrency,
            first_chunk_tokens=first_meta.completion_tokens,
        )


def _read_event(event: bytes | None) -> tuple[GenerationMeta, str, str | None]:
    """Return counts, text and problem of one event of the stream."""
    if event is None:
        return NO_META, "", None
    try:
        data: Any = json.loads(event)
    except ValueError:
        return NO_META, "", f"The server sent an event that is not JSON: {event[:80]!r}."
    if not isinstance(data, dict):
        return NO_META, "", f"The server sent an event that is not a JSON object: {event[:80]!r}."
    if "error" in data:
        detail = data["error"].get("message") if isinstance(data["error"], dict) else data["error"]
        return NO_META, "", f"The server reported an error: {str(detail)[:300]}"
    meta = data.get("meta_info")
    return read_meta(meta if isinstance(meta, dict) else {}), str(data.get("text", "")), None


def _error_of(result: StreamResult, meta: GenerationMeta, problem: str | None) -> str | None:
    """Return why a request failed, the cause nearest to the network first; None when it is complete."""
    error = result.error
    if error is None and result.status != 200:
        detail = result.body[:300].decode("utf-8", "replace").strip()
        error = f"The server answered {result.status}{': ' + detail if detail else '.'}"
    elif error is None and problem is not None:
        error = problem
    elif error is None and meta.finish_reason == "abort":
        error = f"The server aborted the request: {meta.finish_message or 'no reason given'}."
    elif error is None and (not result.finished or meta.finish_reason is None):
        error = "The stream ended before the answer was finished."
    elif error is None and meta.completion_tokens < 2:
        error = "The answer has fewer than two tokens: nothing can be timed."
    return error
