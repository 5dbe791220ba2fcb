"""What a node other than the first answers: that it lives (``launch_dummy_health_check_server``, 0.5.15)."""

from __future__ import annotations

import http.server
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .log import Log

PATHS = ("/ping", "/health", "/health_generate")


class _Handler(http.server.BaseHTTPRequestHandler):
    """200 without a body, whatever the schedulers do; nothing else is served."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200 if self.path.partition("?")[0] in PATHS else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name in the standard library
        """Write no access log; the real one has the level "warning"."""


def start(host: str, port: int, log: Log) -> None:
    """Serve in a thread and say so."""
    server = http.server.ThreadingHTTPServer((host, port), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True, name="health-check-server").start()
    log(f"Dummy health check server started in background thread at {host}:{port}")
