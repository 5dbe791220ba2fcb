"""Requests as the HTTP side sees them: from a prompt to ``text`` and ``meta_info`` (tokenizer_manager of 0.5.15)."""

from __future__ import annotations

import asyncio
import bisect
import time
import uuid
from typing import TYPE_CHECKING, Any

from .text import Continuation, decode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from multiprocessing.connection import Connection

    from .metrics import Metrics

_DEFAULT_NEW_TOKENS = 128


class RequestState:
    """What is known about one running request."""

    def __init__(self, rid: str, prompt: Sequence[int], continuation: Continuation, cached: int, probe: bool) -> None:
        self.rid = rid
        self.prompt_tokens = len(prompt)
        self.cached_tokens = cached
        self.continuation = continuation
        self.probe = probe
        self.updates: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.received = time.time()
        self.dispatched = self.received
        self.last_output = 0.0
        self.ids: list[int] = []
        self.text = ""

    def extend(self, count: int) -> None:
        """Have so many tokens of the answer."""
        more = self.continuation.ids(len(self.ids), count)
        self.ids += more
        self.text += decode(more)


class Generator:
    """Hands requests to rank 0 and turns its updates into answers.

    Args:
        connection: pipe to rank 0.
        speculative_steps: number of draft steps, None without speculation.
        weight_version: ``--weight-version``.
        context_length: longest prompt plus answer.
        metrics: counters behind /metrics.
    """

    def __init__(
        self,
        connection: Connection,
        speculative_steps: int | None,
        weight_version: str,
        context_length: int,
        metrics: Metrics,
    ) -> None:
        self._connection = connection
        self._steps = speculative_steps
        self._weight_version = weight_version
        self._context_length = context_length
        self._metrics = metrics
        self._states: dict[str, RequestState] = {}
        self._seen: list[tuple[int, ...]] = []
        self._flushed: asyncio.Future[None] | None = None
        self.statistics: dict[str, Any] = {}
        self.last_receive = 0.0
        self.warming_up = True

    def attach(self) -> None:
        """Read rank 0's updates on the running event loop."""
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._receive)

    @property
    def pending(self) -> list[str]:
        """Ids of the requests that are running."""
        return list(self._states)

    def _receive(self) -> None:
        try:
            while self._connection.poll():
                self._dispatch(self._connection.recv())
        except (EOFError, OSError):
            # Rank 0 is dead: the watchdog will say so. Without this the loop would spin on a closed pipe.
            asyncio.get_running_loop().remove_reader(self._connection.fileno())

    def _dispatch(self, message: dict[str, Any]) -> None:
        self.last_receive = time.time()
        if message["kind"] == "flushed":
            if self._flushed is not None and not self._flushed.done():
                self._flushed.set_result(None)
            return
        self.statistics = message["statistics"]
        for update in message["updates"]:
            state = self._states.get(update["rid"])
            if state is not None:
                state.updates.put_nowait(update)

    async def flush(self) -> bool:
        """Empty the prefix cache; refused (False) while requests are running."""
        if self._states:
            return False
        self._seen.clear()
        self._flushed = asyncio.get_running_loop().create_future()
        self._connection.send({"kind": "flush"})
        await asyncio.wait_for(self._flushed, timeout=30)
        return True

    def _cached(self, prompt: Sequence[int]) -> int:
        """Return how many tokens begin an earlier prompt too, all but the last at most (a radix cache's rule)."""
        key = tuple(prompt)
        at = bisect.bisect_left(self._seen, key)
        # In sorted order the prompt with the longest common beginning is a neighbour.
        common = [_common_prefix(key, other) for other in self._seen[max(at - 1, 0) : at + 1]]
        if self._seen[at : at + 1] != [key]:
            self._seen.insert(at, key)
        return min(max(common, default=0), len(key) - 1)

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: dict[str, Any],
        stream: bool,
        rid: str | None = None,
        probe: bool = False,
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield answers in the native format: each step's when streaming, else the complete one only.

        Args:
            prompt: token ids.
            sampling: ``sampling_params`` of the request.
            stream: whether every step is of interest.
            rid: id of the request.
            probe: a health check, which counts nowhere.

        Raises:
            ValueError: the prompt or the number of tokens is out of range.
        """
        rid = rid or uuid.uuid4().hex
        limit = sampling.get("max_new_tokens")
        limit = _DEFAULT_NEW_TOKENS if limit is None else int(limit)
        if limit < 1:
            raise ValueError(f"max_new_tokens must be at least 1 in the simulated server, got {limit}.")
        if len(prompt) >= self._context_length:
            raise ValueError(
                f"The input ({len(prompt)} tokens) is longer than the model's context length "
                f"({self._context_length} tokens)."
            )
        limit = min(limit, self._context_length - len(prompt))
        greedy = float(sampling.get("temperature", 1.0)) == 0.0
        continuation = Continuation(prompt, "" if greedy else str(sampling.get("sampling_seed") or rid))
        state = RequestState(rid, prompt, continuation, 0 if probe else self._cached(prompt), probe)
        never = limit + 1
        self._states[rid] = state
        self._connection.send(
            {
                "kind": "generate",
                "rid": rid,
                "prompt_tokens": state.prompt_tokens,
                "cached_tokens": state.cached_tokens,
                "limit": limit,
                "stop_at": never if sampling.get("ignore_eos") else continuation.natural_length,
                "stream": stream,
                "seed": continuation.ids(0, 4),
                "draws": [] if greedy else [rid],
                "warmup": self.warming_up,
                "probe": probe,
            }
        )
        state.dispatched = time.time()
        finished = False
        try:
            while not finished:
                update = await state.updates.get()
                finished = update["finish_reason"] is not None
                self._count(state, update, finished)
                yield self._answer(state, update)
        finally:
            del self._states[rid]
            if not finished:
                self._connection.send({"kind": "abort", "rid": rid})

    def _count(self, state: RequestState, update: dict[str, Any], finished: bool) -> None:
        if state.probe:
            return
        now, made = time.time(), update["completion_tokens"]
        if not state.last_output:
            self._metrics.first_output(now - state.received)
        elif made > len(state.ids):
            self._metrics.output(now - state.last_output, made - len(state.ids))
        state.last_output = now
        if finished:
            self._metrics.finished(
                prompt=state.prompt_tokens,
                cached=state.cached_tokens,
                made=made,
                verified=update["verify_steps"],
                seconds=now - state.received,
            )

    def _answer(self, state: RequestState, update: dict[str, Any]) -> dict[str, Any]:
        count = update["completion_tokens"]
        state.extend(count)
        now = time.time()
        meta: dict[str, Any] = {
            "id": state.rid,
            "finish_reason": update["finish_reason"],
            "prompt_tokens": state.prompt_tokens,
            "weight_version": self._weight_version,
            "num_retractions": 0,
            "queue_time": 0.0,
            "reasoning_tokens": 0,
            "completion_tokens": count,
            "cached_tokens": state.cached_tokens,
            "cached_tokens_details": {"device": state.cached_tokens, "host": 0},
            "dp_rank": None,
        }
        if update["finish_reason"] is not None:
            meta["e2e_latency"] = now - state.received
        if self._steps is not None and update["verify_steps"] > 0:
            meta.update(self._speculation(count, update))
        if update["finish_reason"] is not None:
            meta.update(
                request_received_ts=state.received,
                api_server_dispatch_finish_ts=state.dispatched,
                request_finished_ts=now,
                decode_throughput=(count - 1) / update["decode_seconds"] if update["decode_seconds"] > 0 else 0.0,
                response_sent_to_client_ts=time.time(),
            )
        return {"text": state.text, "output_ids": list(state.ids), "meta_info": meta}

    def _speculation(self, count: int, update: dict[str, Any]) -> dict[str, Any]:
        verified, histogram = update["verify_steps"], update["histogram"]
        correct = sum(accepted * steps for accepted, steps in enumerate(histogram))
        # Of the steps that the server was started with, as the real one counts them while the steps adapt.
        proposed = verified * (self._steps or 0)
        shape = {"spec_correct_drafts_histogram": histogram, "spec_accept_histogram": histogram}
        if not proposed:
            return shape
        return {
            "spec_accept_rate": correct / proposed,
            "spec_accept_length": count / verified,
            "spec_num_correct_drafts": correct,
            "spec_num_proposed_drafts": proposed,
            "spec_verify_ct": verified,
            "spec_accepted_drafts": correct,
            "spec_proposed_drafts": proposed,
            **shape,
        }


def _common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many items two sequences have in common at their beginning."""
    count = 0
    for one, other in zip(first, second):  # noqa: B905 - Python 3.9 has no strict, and the shorter one ends it
        if one != other:
            break
        count += 1
    return count
