from __future__ import annotations

import http.server
import json
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.server_probe import (
    ProbeError,
    differences,
    health_status,
    server_info,
    summarize,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Handler(http.server.BaseHTTPRequestHandler):
    health: ClassVar[int] = 200
    info: ClassVar[bytes] = b"{}"
    key: ClassVar[str] = ""

    def do_GET(self) -> None:
        allowed = not self.key or self.headers.get("Authorization") == f"Bearer {self.key}"
        status, body = (self.health, b"") if self.path == "/health" else (200, self.info) if allowed else (401, b"")
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def port() -> Iterator[int]:
    Handler.health, Handler.info, Handler.key = 200, b"{}", ""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_health(port: int) -> None:
    assert health_status("127.0.0.1", port) == 200
    Handler.health = 503
    assert health_status("127.0.0.1", port) == 503
    assert health_status("127.0.0.1", 1, timeout_s=1) is None


def test_info_is_redacted(port: int) -> None:
    Handler.info = json.dumps({"api_key": "x", "version": "0.5.15"}).encode()
    assert server_info("127.0.0.1", port) == {"api_key": "REDACTED", "version": "0.5.15"}


def test_info_with_a_key(port: int) -> None:
    Handler.key = "k"
    assert server_info("127.0.0.1", port, "k") == {}
    with pytest.raises(ProbeError, match="sglang_server_api_key"):
        server_info("127.0.0.1", port)


@pytest.mark.parametrize(("body", "says"), [(b"<html>", "answer with JSON"), (b"[]", "JSON object")])
def test_info_that_is_none(port: int, body: bytes, says: str) -> None:
    Handler.info = body
    with pytest.raises(ProbeError, match=says):
        server_info("127.0.0.1", port)


def test_nobody_answers() -> None:
    with pytest.raises(ProbeError, match="does not answer"):
        server_info("127.0.0.1", 1)


def test_differences() -> None:
    info = {
        "speculative_num_steps": 3,
        "speculative_num_draft_tokens": 6,
        "model_path": "/m",
        "speculative_algorithm": None,
    }
    assert differences({"speculative_num_steps": 3, "unknown_here": 1, "model_path": None}, info) == []
    assert differences({"speculative_num_draft_tokens": 4}, info) == ["speculative_num_draft_tokens is 6, not 4"]
    assert differences({"speculative_algorithm": None}, {"speculative_algorithm": "EAGLE3"}) == [
        "speculative_algorithm is EAGLE3, not None"
    ]
    assert summarize(info)["version"] is None
