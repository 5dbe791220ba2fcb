"""The poller against real small HTTP servers."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from controller.watch.events import Event, FactsRead, ServerAnswered, ServerSilent
from controller.watch.server import LOCKED, NO_METRICS, ServerPoller

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DATA = Path(__file__).parents[3] / "data" / "sglang-0.5.15"
METRICS = (DATA / "metrics-eagle3.txt").read_text(encoding="utf-8")
INFO = (DATA / "server_info-eagle3.json").read_text(encoding="utf-8")


@contextmanager
def serving(pages: Mapping[str, str], key: str = "", protocol: str = "HTTP/1.1") -> Iterator[tuple[str, list[str]]]:
    """A server with these pages; yields its address and the paths that were asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol

        def do_GET(self) -> None:
            asked.append(self.path)
            refused = bool(key) and self.path != "/metrics" and self.headers.get("Authorization") != f"Bearer {key}"
            body = pages.get(self.path, "{}").encode()
            self.send_response(401 if refused else 200 if self.path in pages else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def looks(url: str, count: int, key: str | None = None) -> list[Event]:
    found: list[Event] = []
    poller = ServerPoller(url, key, 0.01, found.append)
    for _ in range(count):
        poller.look()
    return found


def test_a_server_with_metrics_is_asked_nothing_else_twice() -> None:
    with serving({"/metrics": METRICS, "/server_info": INFO}) as (url, asked):
        facts, first, second = looks(url, 2)
    assert isinstance(facts, FactsRead)
    assert facts.facts.steps == 3
    assert isinstance(first, ServerAnswered)
    assert first == second
    assert first.reading.acceptance_length == 1.0
    assert first.note == ""
    assert asked == ["/server_info", "/metrics", "/metrics"]


def test_a_server_without_metrics() -> None:
    with serving({"/server_info": INFO}) as (url, asked):
        _, first, second = looks(url, 2)
    assert isinstance(first, ServerAnswered)
    assert first.note == NO_METRICS
    assert first.reading.tokens_per_s == json.loads(INFO)["internal_states"][0]["last_gen_throughput"]
    assert second == first
    assert asked == ["/server_info", "/metrics", "/server_info"]


def test_a_server_with_a_key() -> None:
    with serving({"/metrics": METRICS, "/server_info": INFO}, key="k") as (url, _):
        facts, answered = looks(url, 1)
        assert isinstance(facts, FactsRead)
        assert facts.facts.model == ""
        assert isinstance(answered, ServerAnswered)
        assert answered.reading.running == 1
        known, _ = looks(url, 1, "k")
        assert isinstance(known, FactsRead)
        assert known.facts.steps == 3
    with serving({"/server_info": INFO}, key="k") as (url, _):
        _, locked = looks(url, 1)
    assert isinstance(locked, ServerAnswered)
    assert locked.note == LOCKED


def test_a_simulated_server_is_unscaled() -> None:
    info = json.dumps({"simulated": {"time_scale": 0.1}})
    with serving({"/metrics": METRICS, "/server_info": info}) as (url, _):
        _, answered = looks(url, 1)
    assert isinstance(answered, ServerAnswered)
    assert answered.reading.tokens_per_s is not None
    assert abs(answered.reading.tokens_per_s - 21.246) < 0.01


def test_a_server_that_is_gone_and_comes_back() -> None:
    found: list[Event] = []
    with serving({"/metrics": METRICS, "/server_info": INFO}, protocol="HTTP/1.0") as (url, _):
        poller = ServerPoller(url, None, 0.01, found.append)
        poller.look()
    poller.look()
    gone = found[-1]
    assert isinstance(gone, ServerSilent)
    assert url in gone.sentence
    assert "does not answer" in gone.sentence


def test_nonsense_is_no_traceback() -> None:
    with serving({"/metrics": "<html>", "/server_info": "[1]"}) as (url, _):
        facts, answered = looks(url, 1)
    assert isinstance(facts, FactsRead)
    assert isinstance(answered, ServerAnswered)
    assert answered.reading.tokens_per_s is None
    (silent,) = looks("http://", 1)
    assert isinstance(silent, ServerSilent)


def test_the_thread_ends_when_told() -> None:
    found: list[Event] = []
    with serving({"/metrics": METRICS, "/server_info": INFO}) as (url, asked):
        poller = ServerPoller(url, None, 0.01, found.append)
        poller.start()
        while len(found) < 3:
            pass
        poller.stop()
        poller.join(10)
        assert not poller.is_alive()
    assert "/health" not in asked
