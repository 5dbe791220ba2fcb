"""The serving phase of the launcher: HTTP, warm-up, signals, shutdown.

Source: srt/entrypoints/http_server.py and srt/managers/tokenizer_manager.py, 0.5.15.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

from .application import Application
from .context_length import read_config
from .generation import Generator
from .http_server import HttpServer, ask
from .metrics import Metrics
from .process_tree import kill_process_tree
from .server_info import model_info

if TYPE_CHECKING:
    from .engine import Engine
    from .log import Log
    from .node import Node

_LAST_ANSWER_S = 0.02
_PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


class Server:
    """Serves one launch until it is stopped."""

    def __init__(self, fields: dict[str, Any], node: Node, engine: Engine, scheduler: dict[str, Any], log: Log) -> None:
        self._fields = fields
        self._node = node
        self._engine = engine
        self._log = log
        self._config = read_config(fields["model_path"])
        speculative = fields["speculative_algorithm"] is not None
        steps: int | None = fields["speculative_num_steps"] if speculative else None
        tokens = scheduler["max_total_num_tokens"]
        self._metrics = Metrics(
            fields["served_model_name"],
            None if steps is None else (steps, fields["speculative_num_draft_tokens"]),
            {
                "sglang:max_total_num_tokens": tokens,
                "sglang:num_pages": tokens,
                "sglang:page_size": fields["page_size"],
                "sglang:context_len": scheduler["context_len"],
                "sglang:startup_available_gpu_memory_gb": scheduler["available_gpu_memory_gb"],
                "sglang:kv_available_tokens": tokens,
                "sglang:new_token_ratio": 0.7,
            },
        )
        self._generator = Generator(
            engine.connection, steps, fields["weight_version"], scheduler["context_len"], self._metrics
        )
        self._application = Application(
            fields=fields,
            config=self._config,
            scheduler=scheduler,
            node=node,
            generator=self._generator,
            metrics=self._metrics,
            log=log,
            on_first_request=self._handle_signals,
        )
        self._draining: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Bind, warm up and serve for ever.

        Exits with status 1 when the address is taken, after the lines that uvicorn logs then.
        """
        host, port = self._fields["host"], self._fields["port"]
        self._generator.attach()
        self._engine.watch()
        self._log(f"INFO:     Started server process [{os.getpid()}]")
        self._log("INFO:     Waiting for application startup.")
        self._log("INFO:     Application startup complete.")
        try:
            await HttpServer(self._application, self._log.access).start(host, port)
        except OSError as error:
            self._log(f"ERROR:    {error}")
            self._log("INFO:     Waiting for application shutdown.")
            self._log("INFO:     Application shutdown complete.")
            self._engine.stop_watching()
            sys.exit(1)
        self._log(f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
        if self._fields["skip_server_warmup"]:
            self._become_ready()
        else:
            await self._warm_up(host, port)
        await asyncio.Event().wait()

    def _become_ready(self) -> None:
        self._generator.warming_up = False
        self._application.status = "Up"
        self._log("The server is fired up and ready to roll!")

    async def _warm_up(self, host: str, port: int) -> None:
        """Ask oneself, as the real server does: /model_info, then a short request (with an image if it sees)."""
        host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
        key = self._fields["api_key"]
        headers = {"authorization": f"Bearer {key}"} if key else {}
        await asyncio.sleep(self._node.loading(1.0))
        try:
            await _ask(host, port, "/model_info", None, headers)
            await asyncio.sleep(self._node.loading(float(self._node.phases.get("warmup_s", 0.0))))
            path, request = self._warm_up_request()
            await _ask(host, port, path, request, headers)
        except (OSError, RuntimeError):
            self._log(f"Initialization failed. warmup error: {traceback.format_exc()}")
            kill_process_tree(self._log)
        self._become_ready()

    def _warm_up_request(self) -> tuple[str, dict[str, Any]]:
        if not model_info(self._fields, self._config)["has_image_understanding"]:
            sampling = {"temperature": 0, "max_new_tokens": 8}
            return "/generate", {"text": "The capital city of France is", "sampling_params": sampling}
        content = [
            {"type": "image_url", "image_url": {"url": _PICTURE}},
            {"type": "text", "text": "Describe the image."},
        ]
        return "/v1/chat/completions", {
            "model": self._fields["served_model_name"],
            "messages": [{"role": "user", "content": content}],
            "max_tokens": 8,
            "stream": False,
            "temperature": 0.0,
        }

    def _handle_signals(self) -> None:
        """From the first request on: drain on SIGTERM, diagnose on SIGQUIT.

        Before it SIGTERM has its default effect, so a server that never served dies at once.
        """
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        loop.add_signal_handler(signal.SIGQUIT, self._engine.crash)
        self._draining = loop.create_task(self._drain())

    def _terminate(self) -> None:
        self._log("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        self._application.shutting_down = True

    async def _drain(self) -> None:
        """Look every 5 s; once told to end, wait without limit for running requests (``sigterm_watchdog``)."""
        tick = self._node.shutdown(5.0, at_least=0.02)
        while not self._application.shutting_down:  # noqa: ASYNC110 - the delay is part of what is simulated
            await asyncio.sleep(tick)
        while True:
            remaining_rids = self._generator.pending
            if self._application.status == "UnHealthy":
                self._log("Signal SIGTERM received while health check failed. Force exiting.")
                break
            if os.environ.get("SGL_FORCE_SHUTDOWN", "").lower() in ("1", "true"):
                self._log("Signal SIGTERM received while force shutdown flag set. Force exiting.")
                break
            self._log(
                f"Gracefully exiting... Remaining number of requests {len(remaining_rids)}. "
                f"Remaining requests {remaining_rids=}."
            )
            if not remaining_rids:
                break
            await asyncio.sleep(tick)
        # The last answer is complete, but may still be on its way: from now on the event loop stands still.
        await asyncio.sleep(_LAST_ANSWER_S)
        self._engine.shut_down()


async def _ask(host: str, port: int, path: str, body: dict[str, Any] | None, headers: dict[str, str]) -> None:
    status, answer = await ask(host, port, "GET" if body is None else "POST", path, body=body, headers=headers)
    if status != 200:
        raise RuntimeError(answer.decode(errors="replace"))
