"""The load generator beside an established client, ``sglang.bench_serving``, in one run against one server.

The server's timing is known (``timed_server.py``), so each client is compared with the truth of its own run, and the
two with each other: they take turns (own, peer, peer, own, …), at each concurrency, on the same texts. The peer is
fetched from PyPI on first use, into ``~/.cache``.

    .venv/bin/python tests/bench/bench_load_clients.py [--concurrency 1 8 32 128] [--rounds 3]

Against a real server: ``tests/gpu/fidelity.py``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.bench_load import timed_server
from tests.bench.load_clients import ClientRun, Question, run_own, run_peer
from tests.bench.peer_client import Peer, PeerError, fetched_peer
from tests.bench.timed_server import TOKENS_PER_CHUNK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Turn(NamedTuple):
    """One run of one client beside what the server knows of it.

    ``cpu_share`` is of one core, between the first request that arrived and the last part that was sent.
    """

    run: ClientRun
    true_rate: float
    true_ttft_ms: float
    cpu_share: float

    @property
    def rate_error(self) -> float:
        """Error of the decode speed, %."""
        return (self.run.decode_rate / self.true_rate - 1) * 100

    @property
    def ttft_error_ms(self) -> float:
        """What the client adds to the time to first token, ms."""
        return self.run.ttft_ms - self.true_ttft_ms


def take_turn(question: Question, peer: Peer | None) -> Turn:
    """Let one client ask and compare it with the server's own record."""
    run = run_own(question) if peer is None else run_peer(question, peer)
    with urllib.request.urlopen(f"{question.url}/timings") as answer:  # noqa: S310 - our own server
        known: dict[str, Mapping[str, float]] = json.load(answer)
    seen = [known[text] for text in question.texts]
    decode_s = math.fsum(timing["last"] - timing["first"] for timing in seen)
    return Turn(
        run=run,
        true_rate=(run.tokens - run.requests) / decode_s,
        true_ttft_ms=statistics.median(timing["first"] - timing["received"] for timing in seen) * 1000,
        cpu_share=run.cpu.share(min(timing["received"] for timing in seen), max(timing["last"] for timing in seen)),
    )


def turns(question: Question, peer: Peer, rounds: int) -> list[tuple[Turn, Turn]]:
    """Return (own, peer) of each round; the order alternates."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            theirs = take_turn(question, peer)
            pairs.append((take_turn(question, None), theirs))
        else:
            ours = take_turn(question, None)
            pairs.append((ours, take_turn(question, peer)))
    return pairs


def show(name: str, concurrency: int, seen: Sequence[Turn]) -> None:
    """Print the medians of one client's turns."""

    def middle(values: list[float]) -> float:
        return statistics.median(values)

    print(
        f"{name:30} {concurrency:11d} | {middle([turn.run.decode_rate for turn in seen]):7.2f}"
        f" {middle([turn.true_rate for turn in seen]):7.2f}"
        f" {max((turn.rate_error for turn in seen), key=abs):+8.3f} |"
        f" {middle([turn.run.ttft_ms for turn in seen]):7.2f} {middle([turn.true_ttft_ms for turn in seen]):7.2f}"
        f" {middle([turn.ttft_error_ms for turn in seen]):+7.2f} | {middle([turn.cpu_share for turn in seen]):5.2f}"
    )


def main() -> int:
    """Print three lines for each concurrency: own, peer, ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--gap-ms", type=float, default=30.0)
    parser.add_argument("--ttft-ms", type=float, default=100.0)
    options = parser.parse_args()
    try:
        peer = fetched_peer()
        with timed_server(chunks=options.chunks, gap_ms=options.gap_ms, ttft_ms=options.ttft_ms) as port:
            print(
                f"{os.cpu_count()} CPUs, load before: {os.getloadavg()[0]:.2f}; {options.rounds} rounds in turns;"
                f" {TOKENS_PER_CHUNK} tokens every {options.gap_ms:g} ms per stream\n"
                f"{'client':30} concurrency |   tok/s    true  worst % | TTFT ms    true   error | CPU share"
            )
            for concurrency in options.concurrency:
                question = Question(
                    url=f"http://127.0.0.1:{port}",
                    texts=tuple(f"prompt number {number}" for number in range(max(8, 2 * concurrency))),
                    concurrency=concurrency,
                    output_tokens=1 + (options.chunks - 1) * TOKENS_PER_CHUNK,
                )
                pairs = turns(question, peer, options.rounds)
                show("own", concurrency, [ours for ours, _ in pairs])
                show(peer.name, concurrency, [theirs for _, theirs in pairs])
                ratios = sorted(ours.run.decode_rate / theirs.run.decode_rate for ours, theirs in pairs)
                cpu = [ours.cpu_share / theirs.cpu_share for ours, theirs in pairs if theirs.cpu_share]
                print(
                    f"{'own / peer':30} {concurrency:11d} | {statistics.median(ratios):7.4f}"
                    f" ({ratios[0]:.4f} to {ratios[-1]:.4f}){'':17}| CPU {statistics.median(cpu or [math.nan]):.2f}",
                    flush=True,
                )
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"load after: {os.getloadavg()[0]:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
