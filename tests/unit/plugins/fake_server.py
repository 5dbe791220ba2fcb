"""A few lines that behave like a launcher with one scheduler, for tests of modules; see ``launch``."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = r"""
import ctypes, http.server, json, os, sys, time
port, mode, model = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def say(text):
    print(time.strftime("[%Y-%m-%d %H:%M:%S] ") + text, flush=True)
if mode == "deaf":
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child == 0:
    ctypes.CDLL(None).prctl(15, b"sglang::scheduler_TP0", 0, 0, 0)
    time.sleep(600)
say("Load weight begin. avail mem=1 GB")
if mode == "crash":
    say("Scheduler hit an exception: Traceback (most recent call last):\n  File \"x\", line 1\n"
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")
    time.sleep(1.0)
    os.kill(child, 9)
    os.kill(os.getpid(), 9)
if mode == "stalls":
    time.sleep(600)
if mode == "late":
    time.sleep(2.0)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if mode == "mute" and self.path == "/health":  # SGLang waits 20 s for a token before it says so
            time.sleep(1.5)
            self.send_response(503)
            self.end_headers()
            return
        body = json.dumps({"model_path": model, "version": "0.5.15", "speculative_num_steps": 3}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
if mode == "takes-part":
    say(f"Dummy health check server started in background thread at 127.0.0.1:{port}")
    server.serve_forever()
say("INFO:     Uvicorn running on http://127.0.0.1")
say("The server is fired up and ready to roll!")
server.serve_forever()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def parameters(folder: Path, port: int, mode: str = "serves") -> dict[str, Any]:
    """Parameters of sglang_process for a launch of the fake server."""
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text("{}")
    script = folder / "server.py"
    script.write_text(SOURCE)
    return {
        "state": "started",
        "state_dir": str(folder / "state"),
        "argv": [sys.executable, str(script), str(port), mode, str(model)],
        "environment": {"NCCL_PROTO": "LL"},
        "secret_environment": {},
        "log_file": str(folder / "logs" / "server.log"),
        "log_keep": 2,
        "host": "127.0.0.1",
        "port": port,
        "owner": "",
        "inputs": [str(model / "config.json")],
        "model_paths": [str(model), ""],
        "stop_timeout_s": 1.0,
        "lock_timeout_s": 1.0,
    }
