"""A small HTTP/1.1 server on asyncio.

A hand-made server is right here because the stand-in also runs in bare Debian containers, where nothing but the
standard library exists. It does what load generators and health checks need: keep-alive, bodies with a length, chunked
streaming and many connections at once. It is no general web server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    422: "Unprocessable Entity",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_LARGEST_BODY = 64 << 20
_DISCONNECT_CHECK_S = 0.2


class HttpRequest:
    """One request: method, path without the query, headers in lower case and the body."""

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes, peer: str) -> None:
        self.method = method
        self.path, _, self.query = target.partition("?")
        self.headers = headers
        self.body = body
        self.peer = peer

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object.

        Raises:
            ValueError: it is none.
        """
        value = json.loads(self.body or b"{}")
        if not isinstance(value, dict):
            raise ValueError("The request body must be a JSON object.")  # noqa: TRY004 - a bad value from outside
        return value


class HttpResponse:
    """Status and body; the body is bytes, or an iterator of pieces which are sent in chunks as they come."""

    def __init__(
        self,
        body: bytes | AsyncIterator[bytes] = b"",
        status: int = 200,
        content_type: str = "text/plain; charset=utf-8",
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type

    @classmethod
    def json(cls, value: object, status: int = 200) -> HttpResponse:
        """Return a JSON response."""
        return cls(json.dumps(value, ensure_ascii=False).encode(), status, "application/json")


Handler = Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse]]
_T = TypeVar("_T")


class HttpServer:
    """Serves a handler.

    Args:
        handler: makes the response of each request.
        access_log: called with each finished head, in uvicorn's format.
    """

    def __init__(self, handler: Handler, access_log: Callable[[str], None]) -> None:
        self._handler = handler
        self._access_log = access_log
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Bind and serve.

        Raises:
            OSError: the address is taken; asyncio's text, which uvicorn logs.
        """
        self._server = await asyncio.start_server(self._connection, host, port, limit=1 << 20, backlog=2048)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = (writer.get_extra_info("peername") or ("unknown", 0))[:2]
        try:
            while True:
                request = await self._read(reader, f"{host}:{port}")
                if request is None:
                    return
                response = await self._unless_left(self._handler(request), request, reader)
                self._access_log(
                    f'{request.peer} - "{request.method} {request.path}{"?" if request.query else ""}{request.query} '
                    f'HTTP/1.1" {response.status} {REASONS.get(response.status, "")}'
                )
                if isinstance(response.body, bytes):
                    await self._write(writer, response)
                else:
                    await self._unless_left(self._write(writer, response), request, reader)
                if request.headers.get("connection", "").lower() == "close":
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            return  # a client that leaves or does not speak HTTP concerns nobody else
        finally:
            writer.close()

    async def _unless_left(
        self, work: Coroutine[Any, Any, _T], request: HttpRequest, reader: asyncio.StreamReader
    ) -> _T:
        """Await something for a client, but not for one that has left: its request is cancelled, as uvicorn's are."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_DISCONNECT_CHECK_S)
                if reader.at_eof() and not task.done():
                    raise ConnectionResetError(f"{request.peer} left before its answer was complete")
        finally:
            task.cancel()
        return task.result()

    async def _read(self, reader: asyncio.StreamReader, peer: str) -> HttpRequest | None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        if not 0 <= length <= _LARGEST_BODY:
            raise ValueError(f"Content-Length {length} is out of range.")
        return HttpRequest(method, target, headers, await reader.readexactly(length), peer)

    async def _write(self, writer: asyncio.StreamWriter, response: HttpResponse) -> None:
        head = f"HTTP/1.1 {response.status} {REASONS.get(response.status, '')}\r\nserver: uvicorn\r\n"
        head += f"content-type: {response.content_type}\r\n"
        if isinstance(response.body, bytes):
            head += f"content-length: {len(response.body)}\r\n\r\n"
            writer.write(head.encode("latin-1") + response.body)
            await writer.drain()
            return
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode("latin-1"))
        pieces = response.body
        try:
            async for piece in pieces:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def ask(
    host: str,
    port: int,
    method: str,
    path: str,
    *,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Send one request and return status and body (what the server's own warm-up needs, nothing more)."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        data = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/1.1",
            f"host: {host}:{port}",
            "connection: close",
            f"content-length: {len(data)}",
        ]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + data)
        await writer.drain()
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), content
    finally:
        writer.close()
