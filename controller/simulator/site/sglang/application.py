"""The endpoints of the stand-in (srt/entrypoints/http_server.py and srt/utils/auth.py, 0.5.15)."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
import uuid
from typing import TYPE_CHECKING, Any

from . import openai_api
from .http_server import HttpRequest, HttpResponse
from .server_info import model_info, server_info
from .text import encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from .generation import Generator
    from .log import Log
    from .metrics import Metrics
    from .node import Node

_OPEN_PREFIXES = ("/health", "/metrics")
_ADMIN_OPTIONAL = ("/flush_cache",)


class Application:
    """Answers requests.

    Attributes:
        status: ``Starting`` until the warm-up has succeeded, then ``Up``; ``UnHealthy`` after a failed health check.
        shutting_down: set by SIGTERM: health checks fail, running requests are finished.
    """

    def __init__(
        self,
        *,
        fields: dict[str, Any],
        config: dict[str, Any],
        scheduler: dict[str, Any],
        node: Node,
        generator: Generator,
        metrics: Metrics,
        log: Log,
        on_first_request: Callable[[], None],
    ) -> None:
        self.status = "Starting"
        self.shutting_down = False
        self._fields = fields
        self._config = config
        self._scheduler = scheduler
        self._node = node
        self._generator = generator
        self._metrics = metrics
        self._log = log
        self._on_first_request: Callable[[], None] | None = on_first_request
        self._created = int(time.time())
        self._routes: dict[tuple[str, str], Callable[[HttpRequest], Awaitable[HttpResponse]]] = {
            ("GET", "/health"): self._health,
            ("GET", "/health_generate"): self._health,
            ("GET", "/ping"): self._ping,
            ("GET", "/model_info"): self._model_info,
            ("GET", "/get_model_info"): self._model_info,
            ("GET", "/server_info"): self._server_info,
            ("GET", "/get_server_info"): self._server_info,
            ("GET", "/metrics"): self._render_metrics,
            ("GET", "/v1/models"): self._models,
            ("GET", "/flush_cache"): self._flush,
            ("POST", "/flush_cache"): self._flush,
            ("POST", "/generate"): self._generate,
            ("PUT", "/generate"): self._generate,
            ("POST", "/v1/completions"): self._completions,
            ("POST", "/v1/chat/completions"): self._chat,
        }
        if not fields["enable_metrics"]:
            del self._routes["GET", "/metrics"]

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request."""
        self._metrics.request_begins(request.path, request.method)
        response = HttpResponse.json({"detail": "Internal Server Error"}, 500)
        try:
            response = await self._respond(request)
        finally:
            self._metrics.request_ends(request.path, request.method, response.status)
        return response

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        if not self._allowed(request):
            return HttpResponse.json({"error": "Unauthorized"}, 401)
        route = self._routes.get((request.method, request.path))
        if route is None:
            known = any(path == request.path for _, path in self._routes)
            return HttpResponse.json({"detail": "Method Not Allowed" if known else "Not Found"}, 405 if known else 404)
        try:
            return await route(request)
        except (ValueError, TypeError) as error:
            if request.path.startswith("/v1/"):
                return openai_api.error(str(error))
            return HttpResponse.json({"error": {"message": str(error)}}, 400)

    def _allowed(self, request: HttpRequest) -> bool:
        """Decide as ``decide_request_auth`` does: an admin key takes its endpoints away from the ordinary key."""
        key, admin_key = self._fields["api_key"], self._fields["admin_api_key"]
        if request.path in _ADMIN_OPTIONAL and admin_key:
            key = admin_key
        if not key or request.method == "OPTIONS" or request.path.startswith(_OPEN_PREFIXES):
            return True
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and secrets.compare_digest(token.encode(), key.encode())

    def first_request(self) -> None:
        """Install the signal handlers of the serving phase, once (``auto_create_handle_loop``)."""
        if self._on_first_request is not None:
            self._on_first_request()
            self._on_first_request = None

    async def _ping(self, request: HttpRequest) -> HttpResponse:
        del request
        return HttpResponse()

    async def _model_info(self, request: HttpRequest) -> HttpResponse:
        del request
        return HttpResponse.json(model_info(self._fields, self._config))

    async def _server_info(self, request: HttpRequest) -> HttpResponse:
        if request.path == "/get_server_info":
            self._log(
                "Endpoint '/get_server_info' is deprecated and will be removed in a future version. "
                "Please use '/server_info' instead."
            )
        statistics = self._generator.statistics
        return HttpResponse.json(server_info(self._fields, self._scheduler, statistics, self._node))

    async def _render_metrics(self, request: HttpRequest) -> HttpResponse:
        del request
        text = self._metrics.render(self._generator.statistics)
        return HttpResponse(text.encode(), content_type="text/plain; version=1.0.0; charset=utf-8")

    async def _models(self, request: HttpRequest) -> HttpResponse:
        del request
        name = self._fields["served_model_name"]
        return HttpResponse.json(openai_api.models(name, self._created, self._scheduler["context_len"]))

    async def _flush(self, request: HttpRequest) -> HttpResponse:
        del request
        self.first_request()
        if not await self._generator.flush():
            return HttpResponse(
                f"Flush cache failed: {len(self._generator.pending)} request(s) are running or waiting.\n".encode(), 400
            )
        return HttpResponse(
            b"Cache flushed.\nPlease check backend logs for more details. "
            b"(When there are running or waiting requests, the operation will not be performed.)\n"
        )

    async def _health(self, request: HttpRequest) -> HttpResponse:
        """Generate one token; any sign of life from the scheduler counts, as long as it came after the call."""
        if self.shutting_down:
            self._log("Health check request received during shutdown. Returning 503.")
            return HttpResponse(status=503)
        if self.status == "Starting":
            return HttpResponse(status=503)
        if request.path == "/health" and os.environ.get("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "1").lower() in (
            "0",
            "false",
        ):
            return HttpResponse()
        self.first_request()
        seconds = float(os.environ.get("SGLANG_HEALTH_CHECK_TIMEOUT", "20"))
        began = time.time()
        probe = asyncio.ensure_future(self._probe())
        try:
            # At least 2 s: scaled far down, a busy machine would look like a hung one.
            while time.time() < began + self._node.loading(seconds, at_least=2.0):
                await asyncio.sleep(self._node.loading(1.0, at_least=0.005))
                if self._generator.last_receive > began:
                    self.status = "Up"
                    return HttpResponse()
        finally:
            probe.cancel()
        clock = "%H:%M:%S"
        self._log(
            f"Health check failed. Server couldn't get a response from detokenizer for last {seconds:.0f} seconds. "
            f"tic start time: {time.strftime(clock, time.localtime(began))}. "
            f"last_heartbeat time: {time.strftime(clock, time.localtime(self._generator.last_receive))}"
        )
        self.status = "UnHealthy"
        return HttpResponse(status=503)

    async def _probe(self) -> None:
        sampling = {"max_new_tokens": 1, "temperature": 0.0}
        rid = f"HEALTH_CHECK_{uuid.uuid4().hex}"
        async for _ in self._generator.generate([0], sampling, stream=False, rid=rid, probe=True):
            pass

    async def _generate(self, request: HttpRequest) -> HttpResponse:
        self.first_request()
        body = request.json()
        prompt = body.get("input_ids")
        if prompt is None:
            if not isinstance(body.get("text"), str):
                raise ValueError("Either text, input_ids or input_embeds should be provided.")
            prompt = encode(body["text"])
        if not isinstance(prompt, list) or not all(isinstance(token, int) for token in prompt):
            raise ValueError("The simulated server takes one prompt a request: input_ids must be a list of integers.")
        stream = bool(body.get("stream"))
        answers = self._generator.generate(prompt, body.get("sampling_params") or {}, stream, body.get("rid"))
        if not stream:
            return HttpResponse.json(await last(answers))
        # Its head goes out before the prompt is even looked at: a refusal is an event of a stream with status 200.
        return events(answers)

    async def _completions(self, request: HttpRequest) -> HttpResponse:
        body = request.json()
        prompt = body.get("prompt", "")
        ids = prompt if isinstance(prompt, list) and all(isinstance(t, int) for t in prompt) else encode(str(prompt))
        return await self._openai(body, ids, chat=False)

    async def _chat(self, request: HttpRequest) -> HttpResponse:
        body = request.json()
        return await self._openai(body, encode(openai_api.prompt_of(body.get("messages"))), chat=True)

    async def _openai(self, body: dict[str, Any], prompt: list[int], chat: bool) -> HttpResponse:
        self.first_request()
        reply = openai_api.Reply(self._fields["served_model_name"], chat, body)
        stream = bool(body.get("stream"))
        answers = self._generator.generate(prompt, openai_api.sampling_of(body), stream)
        if not stream:
            return HttpResponse.json(reply.complete(await last(answers)))
        return await event_stream(reply.chunks(answers))


async def last(answers: AsyncIterator[dict[str, Any]]) -> dict[str, Any]:
    """Return the last item: the complete answer."""
    latest: dict[str, Any] = {}
    async for answer in answers:
        latest = answer
    return latest


async def event_stream(items: AsyncIterator[dict[str, Any]]) -> HttpResponse:
    """Send items as server-sent events which end with ``[DONE]``.

    The first one is awaited here, so that a refused request gets its status and not a broken stream.
    """
    first = await items.__anext__()

    async def all_items() -> AsyncIterator[dict[str, Any]]:
        try:
            yield first
            async for item in items:
                yield item
        finally:
            await _close(items)

    return events(all_items())


def events(items: AsyncIterator[dict[str, Any]]) -> HttpResponse:
    """Send items as server-sent events which end with ``[DONE]``; a refusal is one of them."""

    async def pieces() -> AsyncIterator[bytes]:
        try:
            async for item in items:
                yield _event(item)
        except ValueError as error:
            refusal = {"message": str(error), "type": "invalid_request_error", "code": 400, "retryable": False}
            yield _event({"error": refusal})
        finally:
            await _close(items)
        yield b"data: [DONE]\n\n"

    return HttpResponse(pieces(), content_type="text/event-stream; charset=utf-8")


async def _close(items: AsyncIterator[dict[str, Any]]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()


def _event(item: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(item, ensure_ascii=False).encode() + b"\n\n"
