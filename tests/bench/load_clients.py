"""Runs one load by the controller's client or by another one, each as a process of its own, and reads what it measured.

Both are asked for the same thing: the same texts, the same number in flight, greedy, streamed, as long as they may be.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.cpu_watch import CpuWatch
from tests.bench.peer_client import Peer, PeerError
from tests.bench.warm_program import WarmProgram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SEED = 1
OWN_PROGRAM = Path(__file__).with_name("own_load.py")


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What a client is asked to do."""

    url: str
    texts: tuple[str, ...]
    concurrency: int
    output_tokens: int
    ignore_eos: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class ClientRun:
    """What a client measured in one run, in its own words.

    Attributes:
        tokens: Tokens of all answers.
        decode_rate: Tokens per second after the first token, pooled over requests: what a sweep reports.
        output_rate: Tokens of all answers per second of the whole run, ramps included.
        ttft_ms: Median time to first token, milliseconds.
        verify_steps: Verify steps of all answers; None when the client does not say or the server does not speculate.
        cpu: Processor time by moment, to be asked for a window.
    """

    client: str
    requests: int
    tokens: int
    decode_rate: float
    output_rate: float
    ttft_ms: float
    verify_steps: int | None
    cpu: CpuWatch

    @property
    def acceptance_length(self) -> float | None:
        """L as a sweep reports it, (N - 1) / V: the first token of an answer takes no verify step."""
        return (self.tokens - self.requests) / self.verify_steps if self.verify_steps else None


def run_own(question: Question) -> ClientRun:
    """Let the controller's client ask.

    Raises:
        PeerError: a request failed.
    """
    output, cpu = _run([sys.executable, str(OWN_PROGRAM)], stdin=json.dumps(dataclasses.asdict(question)))
    records: list[dict[str, Any]] = json.loads(output)
    failed = [record["error"] for record in records if record["error"]]
    if failed:
        message = f"{len(failed)} of {len(records)} requests failed: {failed[0]}"
        raise PeerError(message)
    begin = min(record["started_s"] for record in records)
    end = max(record["started_s"] + record["e2e_s"] for record in records)
    tokens = sum(record["completion_tokens"] for record in records)
    steps = [record["verify_steps"] for record in records]
    return ClientRun(
        client="own",
        requests=len(records),
        tokens=tokens,
        decode_rate=(tokens - len(records)) / math.fsum(record["decode_s"] for record in records),
        output_rate=tokens / (end - begin),
        ttft_ms=statistics.median(record["ttft_s"] for record in records) * 1000,
        verify_steps=None if None in steps else sum(steps),
        cpu=cpu,
    )


OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def can_be_warm(peer: Peer) -> bool:
    """Return whether a peer is a Python program and nothing more, so that an interpreter can run it again."""
    words = peer.command[1:]
    return (len(words) == 2 and words[0] == "-m") or (len(words) == 1 and words[0].endswith(".py"))


def warm_peer(peer: Peer) -> WarmProgram:
    """Return a peer that imports once for many runs, to be entered."""
    return WarmProgram(peer.command, os.environ | OFFLINE | peer.environment)


def run_peer(question: Question, peer: Peer, warm: WarmProgram | None = None) -> ClientRun:
    """Let ``sglang.bench_serving`` ask, in a process of its own or in a warm one.

    Raises:
        PeerError: it failed, or a request did.
    """
    with tempfile.TemporaryDirectory(prefix="peer-") as name:
        folder = Path(name)
        prompts, results = folder / "prompts.jsonl", folder / "results.jsonl"
        prompts.write_text("".join(map(_conversation, unshuffled(question.texts))), encoding="utf-8")
        options = ["--backend", "sglang", "--base-url", question.url]
        options += ["--dataset-name", "custom", "--dataset-path", str(prompts)]
        options += ["--num-prompts", str(len(question.texts)), "--seed", str(SEED)]
        options += ["--sharegpt-output-len", str(question.output_tokens)]
        options += ["--max-concurrency", str(question.concurrency), "--warmup-requests", "0"]
        options += ["--model", peer.tokenizer, "--tokenizer", peer.tokenizer]
        options += ["--output-file", str(results), "--output-details", "--disable-tqdm"]
        options += [] if question.ignore_eos else ["--disable-ignore-eos"]
        if warm:
            output, cpu = "", _run_warm(warm, options)
        else:
            output, cpu = _run([*peer.command, *options], environment=OFFLINE | peer.environment)
        if not results.exists():
            message = f"{peer.name} wrote no result: {' '.join(output.strip().splitlines()[-3:])}"
            raise PeerError(message)
        return peer_run(json.loads(results.read_text().splitlines()[-1]), cpu, expected=len(question.texts))


def peer_run(result: Mapping[str, Any], cpu: CpuWatch, *, expected: int) -> ClientRun:
    """Read the line that ``bench_serving --output-details`` wrote.

    Raises:
        PeerError: requests are missing or failed.
    """
    lengths: Sequence[int] = result["output_lens"]
    failed = [error for error in result["errors"] if error]
    if failed or result["completed"] != expected:
        message = f"{expected - result['completed']} of {expected} requests failed: {failed[:1]}"
        raise PeerError(message)
    decode_s = math.fsum(math.fsum(gaps) for gaps in result["itls"])
    return ClientRun(
        client="peer",
        requests=expected,
        tokens=sum(lengths),
        decode_rate=(sum(lengths) - expected) / decode_s,
        output_rate=result["output_throughput"],
        ttft_ms=statistics.median(result["ttfts"]) * 1000,
        verify_steps=None,
        cpu=cpu,
    )


def unshuffled(texts: Sequence[str]) -> list[str]:
    """Return the texts so that the peer asks them in our order: it shuffles its data set, seeded by an option.

    Which requests run side by side changes the speed of all of them, by 2 % with eight at a time.
    """
    order = list(range(len(texts)))
    random.Random(SEED).shuffle(order)
    placed = [""] * len(texts)
    for text, place in zip(texts, order, strict=True):
        placed[place] = text
    return placed


def _conversation(text: str) -> str:
    """Return a line of a data set of the peer's kind ``custom``; the answer in it only has to be there."""
    turns = [{"content": text}, {"content": "an answer of some words"}]
    return json.dumps({"conversations": turns}) + "\n"


def _run_warm(warm: WarmProgram, options: Sequence[str]) -> CpuWatch:
    """Run a warm client once.

    Raises:
        PeerError: it failed.
    """
    cpu = CpuWatch(warm.pid)
    try:
        problem = warm.run(options)
    finally:
        cpu.stop()
    if problem:
        raise PeerError(problem)
    return cpu


def _run(
    command: Sequence[str], *, stdin: str | None = None, environment: Mapping[str, str] | None = None
) -> tuple[str, CpuWatch]:
    """Run a client to its end and return its standard output.

    Raises:
        PeerError: its exit code is not 0.
    """
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        cpu = CpuWatch(process.pid)
        output, _ = process.communicate(stdin)
        cpu.stop()
        if process.returncode:
            errors.seek(0)
            last = " ".join(errors.read().strip().splitlines()[-3:])
            message = f"{' '.join(command[:3])} ended with {process.returncode}: {last[-500:]}"
            raise PeerError(message)
    return output, cpu
