"""Asks the server over HTTP on one open connection: ``/metrics`` each second, ``/server_info`` when it comes up.

Never ``/health``: it generates a token. Without ``--enable-metrics`` there is no ``/metrics``; then ``/server_info`` is
asked, and less often, because the scheduler itself answers it.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from controller.watch.events import FactsRead, ServerAnswered, ServerSilent
from controller.watch.reading import ServerFacts, facts_from, from_metrics, from_server_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.watch.events import Event

TIMEOUT_S = 4.0
WITHOUT_METRICS_S = 5.0
NO_METRICS = (
    "the server exports no metrics (sglang_server_enable_metrics is false): requests and cycle time are not known, "
    "L is an average since the start"
)
LOCKED = "the server wants its key for /server_info: set SGLANG_API_KEY to see model and settings"


class ServerPoller(threading.Thread):
    """Looks again and again and hands every answer to ``put``.

    Args:
        url: where the server listens.
        api_key: sent as bearer token.
        every_s: seconds between two looks.
        put: takes the events; must not block.
    """

    def __init__(self, url: str, api_key: str | None, every_s: float, put: Callable[[Event], None]) -> None:
        super().__init__(name="watch-server", daemon=True)
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._every_s = every_s
        self._put = put
        self._stopped = threading.Event()
        self._client: Any = None
        self._facts: ServerFacts | None = None
        self._metrics = True

    def stop(self) -> None:
        """End after the look at work."""
        self._stopped.set()

    def run(self) -> None:
        """Look until stopped."""
        while not self._stopped.is_set():
            self.look()
            self._stopped.wait(self._every_s if self._metrics else max(self._every_s, WITHOUT_METRICS_S))
        if self._client is not None:
            self._client.close()

    def look(self) -> None:
        """Ask once and put what came of it."""
        import httpx  # noqa: PLC0415 - 0.15 s that no other command needs

        if self._client is None:
            # No proxy from the environment: a server of the fleet is asked directly.
            self._client = httpx.Client(trust_env=False, timeout=TIMEOUT_S, headers=self._headers)
        try:
            self._ask()
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            self._facts, self._metrics = None, True  # another server may come up
            reason = "it takes no connection" if isinstance(error, httpx.ConnectError) else _words(error)
            self._put(ServerSilent(f"{self._url} does not answer: {reason}"))

    def _ask(self) -> None:
        info: dict[str, Any] | None = None
        note = ""
        if self._facts is None:
            info = self._server_info()
            self._facts = facts_from(info) if info is not None else ServerFacts()
            self._put(FactsRead(self._facts))
        scale = self._facts.time_scale or 1.0
        if self._metrics:
            answer = self._client.get(self._url + "/metrics", follow_redirects=True)
            self._metrics = answer.status_code == 200
            if self._metrics:
                self._put(ServerAnswered(from_metrics(answer.text).unscaled(scale)))
                return
        info = info if info is not None else self._server_info()
        note = NO_METRICS if info is not None else LOCKED
        self._put(ServerAnswered(from_server_info(info or {}).unscaled(scale), note))

    def _server_info(self) -> dict[str, Any] | None:
        """Return what the server says about itself; None when it does not let us or has no such address."""
        for path in ("/server_info", "/get_server_info"):
            answer = self._client.get(self._url + path)
            if answer.status_code == 200:
                try:
                    data = json.loads(answer.text)
                except ValueError:
                    return None
                return data if isinstance(data, dict) else None
        return None


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
