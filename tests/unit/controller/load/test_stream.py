from __future__ import annotations

import asyncio
import itertools

from hypothesis import given
from hypothesis import strategies as st

from controller.load.stream import EventStream
from tests.unit.controller.load.scripted_server import END, STREAM_HEAD, answer, chunk, event


def feed(pieces: list[bytes], *, close: bool = False) -> EventStream:
    async def run() -> EventStream:
        stream = EventStream(asyncio.get_running_loop())
        for piece in pieces:
            stream.data_received(piece)
        if close:
            stream.eof_received()
            stream.connection_lost(None)
        return stream

    return asyncio.run(run())


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges) if end > start]


WIRE = b"".join(part for part in answer(9) if isinstance(part, bytes))


@given(st.lists(st.integers(0, len(WIRE)), max_size=30))
def test_how_the_bytes_are_cut_does_not_matter(places: list[int]) -> None:
    stream = feed(cut(WIRE, places))
    result = stream.result
    assert stream.done.done()
    assert result.error is None
    assert result.finished
    assert len(result.arrivals) == 5
    assert result.first_event == event(1, verify=0)[6:-2]
    assert result.last_event is not None
    assert b'"completion_tokens": 9' in result.last_event


@given(st.binary(max_size=400))
def test_garbage_never_raises(data: bytes) -> None:
    feed([data], close=True)
    feed([STREAM_HEAD + data], close=True)
    feed([b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + data], close=True)


def test_events_may_be_split_over_chunks_and_joined_in_one() -> None:
    first, second = event(1), event(3)
    wire = STREAM_HEAD + chunk(b": sign of life\n\n" + first[:10]) + chunk(first[10:] + second) + END
    result = feed([wire]).result
    assert len(result.arrivals) == 2
    assert not result.finished


def test_chunk_extensions_and_late_data() -> None:
    payload = event(1)
    wire = STREAM_HEAD + b"%x;name=value\r\n%b\r\n" % (len(payload), payload) + END
    stream = feed([wire, b"more that nobody asked for"], close=True)
    assert stream.result.error is None
    assert stream.result.first_event is not None
