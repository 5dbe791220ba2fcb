"""What the scheduler logs and reports about its batches (metrics_reporter of 0.5.15)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .decoding import Request
    from .log import Log


class DecodeStatistics:
    """Counts decode steps and writes the ``Prefill batch`` and ``Decode batch`` lines.

    Acceptance as defined since 0.5.11: length = tokens made per verify step, rate = accepted drafts per proposed draft.
    Throughput is what a client sees, that is on scaled time.

    Args:
        log: log of rank 0.
        pool_tokens: tokens for which the KV cache has room.
        interval: decode steps from one line to the next.
        steps: draft steps at first, None without speculation.
        prefill_graph: whether prefills run as a CUDA graph.
        largest_graph: the largest batch whose decode step does; 0 when none does.

    Attributes:
        steps: draft steps in use, None without speculation.
    """

    def __init__(
        self,
        log: Log,
        *,
        pool_tokens: int,
        interval: int,
        steps: int | None,
        prefill_graph: bool,
        largest_graph: int,
    ) -> None:
        self._log = log
        self._pool_tokens = pool_tokens
        self._interval = interval
        self.steps = steps
        self._prefill_graph = prefill_graph
        self._largest_graph = largest_graph
        self._forwards = 0
        self._last_decode = time.monotonic()
        self._last_prefill = time.monotonic()
        self._state: dict[str, Any] = {}
        self.reset()

    def reset(self) -> None:
        """Forget what ``/flush_cache`` forgets: the cumulative acceptance, and the steps since the last line."""
        self._since_flush = self._tokens = self._verified = 0
        self._all_tokens = 0
        self._all_verified = 0
        self._state = {
            "gen_throughput": 0.0,
            "accept_length": 0.0,
            "accept_rate": 0.0,
            "avg_spec_accept_length": None,
            "running": 0,
            "queued": 0,
            "used_tokens": 0,
        }

    def snapshot(self) -> dict[str, Any]:
        """Return the values behind /metrics and /server_info."""
        return dict(self._state, forwards=self._forwards, steps=self.steps)

    def tokens(self, made: Sequence[int]) -> None:
        """Count the tokens that each request of a batch got in a decode step."""
        self._tokens += sum(made)
        self._verified += len(made)

    def prefill(self, batch: Sequence[Request], running: int, queued: int) -> None:
        """Log one prefill batch."""
        cached = sum(request.cached_tokens for request in batch)
        new = sum(request.prompt_tokens for request in batch) - cached
        now = time.monotonic()
        throughput = new / max(now - self._last_prefill, 1e-6)
        self._last_prefill = now
        self._log(
            f"Prefill batch, #new-seq: {len(batch)}, #new-token: {new}, #cached-token: {cached}, token usage: 0.00, "
            f"#running-req: {running}, #queue-req: {queued}, #pending-token: 0, "
            f"cuda graph: {self._prefill_graph}, "
            f"input throughput (token/s): {throughput:.2f}"
        )

    def step(self, running: Sequence[Request], queued: int, now: float) -> bool:
        """Count one decode forward, log every interval and say whether this was one."""
        self._forwards += 1
        self._since_flush += 1
        unfinished = [request for request in running if request.finish_reason() is None]
        used = sum(request.prompt_tokens + request.completion_tokens for request in unfinished)
        self._state.update(running=len(unfinished), queued=queued, used_tokens=used)
        if self._since_flush % self._interval:
            return False
        throughput = self._tokens / max(now - self._last_decode, 1e-6)
        self._last_decode = now
        acceptance = ""
        if self.steps is not None:
            self._all_tokens += self._tokens
            self._all_verified += self._verified
            length = self._tokens / max(self._verified, 1)
            # Of the steps in use now, as the real one: it does not remember earlier ones.
            rate = (length - 1.0) / self.steps if self.steps else 0.0
            acceptance = f"accept len: {length:.2f}, accept rate: {rate:.2f}, "
            self._state.update(
                accept_length=length,
                accept_rate=rate,
                avg_spec_accept_length=self._all_tokens / max(self._all_verified, 1),
            )
        self._state["gen_throughput"] = throughput
        self._log(
            f"Decode batch, #running-req: {len(running)}, #token: {used}, token usage: {used / self._pool_tokens:.2f}, "
            f"{acceptance}cuda graph: {len(running) <= self._largest_graph}, "
            f"gen throughput (token/s): {throughput:.2f}, #queue-req: {queued}"
        )
        self._tokens = self._verified = 0
        return True
