"""The load of a sweep: ``controller.load`` with the workload, the key and the progress of this sweep."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from controller.exits import InputError
from controller.load.client import flush_cache, run_workload, server_info
from controller.load.server import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controller.load.records import RequestRecord
    from controller.load.workload import Workload


class HttpLoad:
    """Sends one workload over HTTP."""

    def __init__(self, workload: Workload, api_key: str | None = None, admin_api_key: str | None = None) -> None:
        """Take the keys as ``controller.keys`` reads them; with an admin key, only that one empties the cache."""
        self._workload = workload
        self._api_key = api_key
        self._admin_api_key = admin_api_key or api_key

    @property
    def levels(self) -> Sequence[int]:
        """Concurrency levels that every launch measures."""
        return self._workload.concurrency_levels

    @property
    def repeats(self) -> int:
        """Runs per level within one launch."""
        return self._workload.repeats

    def server_info(self, base_url: str) -> Mapping[str, Any]:
        """Return ``/server_info``, secrets removed; empty when the server does not answer."""
        try:
            return server_info(base_url, api_key=self._api_key)
        except ServerError:
            return {}

    def flush_cache(self, base_url: str) -> None:
        """Empty the prefix cache. A server that is gone is found by the run that follows, with a better sentence."""
        try:
            flush_cache(base_url, api_key=self._admin_api_key)
        except ServerError:
            return

    def run(
        self,
        base_url: str,
        *,
        run: int,
        concurrency: int,
        warmup: bool,
        time_scale: float,
        on_tokens: Callable[[int, float], None],
    ) -> Sequence[RequestRecord]:
        """Ask the prompts of one run and return one record each."""
        if warmup and not self._workload.warmup_prompts:
            return []
        started = time.monotonic()
        received = 0

        def count(record: RequestRecord) -> None:
            nonlocal received
            received += record.completion_tokens
            on_tokens(received, (time.monotonic() - started) / time_scale)

        try:
            return run_workload(
                base_url,
                self._workload,
                run=run,
                warmup=warmup,
                concurrency=concurrency,
                time_scale=time_scale,
                api_key=self._api_key,
                on_request=count,
            )
        except ValueError as error:
            raise InputError(f"cannot send load to {base_url}: {error}") from error
