"""A server that answers each request with bytes a test has written down."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Part = bytes | float | None  # bytes to send, seconds to wait, None to drop the connection
    Script = Callable[[str, str, dict[str, Any]], Sequence[Part]]

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def event(tokens: int, *, verify: int | None = None, finish: object = None, text: str = "x") -> bytes:
    meta: dict[str, Any] = {"prompt_tokens": 7, "completion_tokens": tokens, "finish_reason": finish}
    if verify is not None:
        meta |= {"spec_verify_ct": verify, "spec_accept_histogram": [0, verify]}
    return b"data: " + json.dumps({"text": text * tokens, "meta_info": meta}).encode() + b"\n\n"


def answer(tokens: int = 9, *, gap: float = 0.0, verify: int | None = 4) -> list[Part]:
    """A complete answer: one token, then two a chunk."""
    parts: list[Part] = [STREAM_HEAD, chunk(event(1, verify=0 if verify else None))]
    for done in range(3, tokens + 1, 2):
        finish = {"type": "length", "length": tokens} if done == tokens else None
        parts += [gap, chunk(event(done, verify=verify and (done - 1) // 2, finish=finish))]
    return [*parts, chunk(b"data: [DONE]\n\n"), END]


def plain(status: str, body: bytes) -> list[Part]:
    return [b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)]


class ScriptedServer:
    """What was asked, and how many requests were open at once."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.open = 0
        self.most_open = 0
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            length = int(headers.get("content-length", "0"))
            body = json.loads(await reader.readexactly(length)) if length else {}
            method, path, _ = first.split(" ")
            self.requests.append((path, headers, body))
            for part in self.script(method, path, body):
                if part is None:
                    writer.transport.abort()
                elif isinstance(part, bytes):
                    writer.write(part)
                    await writer.drain()
                else:
                    await asyncio.sleep(part)
        self.open -= 1
        writer.close()


@contextlib.contextmanager
def serving(script: Script) -> Iterator[ScriptedServer]:
    """Serve in a thread while the block runs."""
    server = ScriptedServer(script)
    loop = asyncio.new_event_loop()
    started = threading.Event()
    stop = asyncio.Event()

    async def run() -> None:
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        started.set()
        async with listening:
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    started.wait()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=5)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
