"""A server of known timing: it streams answers like ``/generate`` and remembers when it really sent each part.

``python tests/bench/timed_server.py --chunks 128 --gap-ms 30 --ttft-ms 100`` prints its port and serves until ended.
Times are ``time.perf_counter()``, which on Linux all processes of a machine share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any

TOKENS_PER_CHUNK = 2
FILLER = "some words that grow " * 200


class TimedServer:
    """Answers ``/generate`` on a fixed schedule and ``/timings`` with what it did."""

    def __init__(self, *, chunks: int, gap_s: float, ttft_s: float) -> None:
        self.chunks = chunks
        self.gap_s = gap_s
        self.ttft_s = ttft_s
        self.timings: dict[str, dict[str, float]] = {}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, one request."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            received = time.perf_counter()
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
            )
            body = await reader.readexactly(length) if length else b""
            if head.startswith(b"GET /timings"):
                content = json.dumps(self.timings).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
            elif head.startswith(b"GET "):  # what other clients ask for around a run: models, server_info
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            else:
                await self.generate(json.loads(body)["text"], received, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def generate(self, text: str, received: float, writer: asyncio.StreamWriter) -> None:
        """Stream one answer: the first chunk holds one token, each further one two (one verify step each)."""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        first = last = 0.0
        for number in range(self.chunks):
            due = received + self.ttft_s + number * self.gap_s
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            tokens = 1 + number * TOKENS_PER_CHUNK
            finish: dict[str, Any] | None = {"type": "length", "length": tokens} if number == self.chunks - 1 else None
            event = {
                "text": FILLER[: 4 * tokens],
                "meta_info": {
                    "id": "0123456789abcdef",
                    "finish_reason": finish,
                    "prompt_tokens": 50,
                    "weight_version": "default",
                    "completion_tokens": tokens,
                    "cached_tokens": 0,
                    "spec_verify_ct": number,
                    "spec_accept_histogram": [0, number],
                },
            }
            payload = b"data: " + json.dumps(event).encode() + b"\n\n"
            last = time.perf_counter()
            first = first or last
            writer.write(b"%x\r\n%b\r\n" % (len(payload), payload))
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        self.timings[text] = {"received": received, "first": first, "last": last}


async def serve(server: TimedServer) -> None:
    """Serve on a free port of the loopback until cancelled."""
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, backlog=1024)
    print(listening.sockets[0].getsockname()[1], flush=True)
    async with listening:
        await listening.serve_forever()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=128)
    parser.add_argument("--gap-ms", type=float, default=30.0)
    parser.add_argument("--ttft-ms", type=float, default=100.0)
    options = parser.parse_args()
    asyncio.run(serve(TimedServer(chunks=options.chunks, gap_s=options.gap_ms / 1000, ttft_s=options.ttft_ms / 1000)))


if __name__ == "__main__":
    main()
