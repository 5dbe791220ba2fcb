"""One streamed ``/generate`` request over HTTP/1.1: as little work as possible between the socket and the clock.

The clock is read once for each piece of data that arrives, before anything is parsed; of the events only the first and
the last are decoded. ``tests/bench/bench_load.py`` measures what this costs and how far its times are off.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

EVENT_PREFIX = b"data:"
DONE = b"[DONE]"
MAX_HEADER = 65536


@dataclasses.dataclass(slots=True)
class StreamResult:
    """What came back for one request. Times are ``time.perf_counter()`` values on the wire; None when nothing came."""

    sent: float = 0.0
    status: int | None = None
    arrivals: list[float] = dataclasses.field(default_factory=list)
    first_event: bytes | None = None
    last_event: bytes | None = None
    body: bytes = b""
    finished: bool = False
    error: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Where to connect."""

    host: str
    port: int
    host_header: str
    path_prefix: str = ""
    tls: ssl.SSLContext | None = None


class EventStream(asyncio.Protocol):
    """Reads one response. ``done`` is resolved when it is complete or the connection is lost."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.result = StreamResult()
        self.done: asyncio.Future[None] = loop.create_future()
        self._in_body = False
        self._chunked = False
        self._length: int | None = None
        self._raw = bytearray()  # bytes of the wire that are not decoded yet
        self._events = bytearray()  # decoded body that holds no complete event yet
        self._expect = 0  # bytes of the current chunk still to come, its line end not counted
        self._skip = 0  # line-end bytes to drop after a chunk

    def data_received(self, data: bytes) -> None:
        """Take the time, then read what arrived."""
        now = time.perf_counter()
        try:
            self._raw += data
            if not self._in_body and not self._read_header():
                return
            finished = self._read_body(now)
        except ValueError as error:
            self._finish(f"The server answered with something that is not HTTP/1.1 ({error}).")
        else:
            if finished:
                self._finish(None)

    def eof_received(self) -> bool:
        """Close our side too; ``connection_lost`` follows."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response: complete only when its length was given by the end of the connection."""
        if self._in_body and not self._chunked and self._length is None and exc is None:
            self._finish(None)
            return
        reason = f": {exc}" if exc else ""
        self._finish(f"The connection was closed before the answer was complete{reason}.")

    def _finish(self, error: str | None) -> None:
        if not self.done.done():
            self.result.error = error
            self.done.set_result(None)

    def _read_header(self) -> bool:
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            if len(self._raw) > MAX_HEADER:
                raise ValueError("the header does not end")
            return False
        lines = bytes(self._raw[:end]).decode("latin-1").split("\r\n")
        del self._raw[: end + 4]
        parts = lines[0].split(" ", 2)
        if not parts[0].startswith("HTTP/1.") or len(parts) < 2:
            raise ValueError(f"its first line is {lines[0][:60]!r}")
        self.result.status = int(parts[1])
        for line in lines[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "transfer-encoding":
                self._chunked = "chunked" in value.lower()
            elif name.lower() == "content-length":
                self._length = int(value)
        self._in_body = True
        return True

    def _read_body(self, now: float) -> bool:
        """Decode what can be decoded; return whether the response is complete."""
        if self._chunked:
            return self._read_chunks(now)
        self._take(bytes(self._raw), now)
        if self._length is not None:
            self._length -= len(self._raw)
        self._raw.clear()
        return self._length is not None and self._length <= 0

    def _read_chunks(self, now: float) -> bool:
        raw, place = self._raw, 0
        finished = False
        while place < len(raw):
            if self._skip:
                step = min(self._skip, len(raw) - place)
                self._skip -= step
                place += step
            elif self._expect:
                piece = bytes(raw[place : place + self._expect])
                self._expect -= len(piece)
                self._skip = 0 if self._expect else 2
                place += len(piece)
                self._take(piece, now)
            else:
                end = raw.find(b"\r\n", place)
                if end < 0:
                    if len(raw) - place > MAX_HEADER:
                        raise ValueError("a chunk has no size")
                    break
                size = raw[place:end].split(b";", 1)[0]
                place = end + 2
                self._expect = int(bytes(size), 16)
                if self._expect == 0:
                    finished = True
                    break
        del raw[:place]
        return finished

    def _take(self, piece: bytes, now: float) -> None:
        """Split decoded body into events; keep the time of each, and the bytes of the first and the last."""
        if self.result.status != 200:
            self.result.body += piece
            return
        events = self._events
        events += piece
        while (end := events.find(b"\n\n")) >= 0:
            event = bytes(events[:end])
            del events[: end + 2]
            if not event.startswith(EVENT_PREFIX):
                continue  # a comment, or a line end sent as a sign of life
            payload = event[len(EVENT_PREFIX) :].strip()
            if payload == DONE:
                self.result.finished = True
                continue
            self.result.arrivals.append(now)
            if self.result.first_event is None:
                self.result.first_event = payload
            self.result.last_event = payload


async def post_stream(
    target: Target, path: str, body: dict[str, Any], *, headers: dict[str, str], timeout_s: float
) -> StreamResult:
    """Send one POST on a fresh connection and read the event stream. Never raises for what the network does.

    The clock starts when the connection is open and the request is handed to the socket: connecting is not timed.
    """
    loop = asyncio.get_running_loop()
    content = json.dumps(body).encode()
    head = [
        f"POST {target.path_prefix}{path} HTTP/1.1",
        f"Host: {target.host_header}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Accept: text/event-stream",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    request = "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + content
    protocol = EventStream(loop)
    transport: asyncio.BaseTransport | None = None
    protocol.result.sent = time.perf_counter()
    try:
        async with asyncio.timeout(timeout_s):
            transport, _ = await loop.create_connection(lambda: protocol, target.host, target.port, ssl=target.tls)
            protocol.result.sent = time.perf_counter()
            transport.write(request)
            await protocol.done
    except TimeoutError:
        protocol.result.error = f"No complete answer within {timeout_s:g} s."
    except OSError as error:
        protocol.result.error = f"No connection to {target.host}:{target.port}: {error.strerror or error}."
    finally:
        if transport is not None:
            transport.abort() if protocol.result.error else transport.close()  # type: ignore[attr-defined]
    return protocol.result
