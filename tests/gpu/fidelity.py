"""Whether the controller measures a running server as its own tools do.

    python3 tests/gpu/fidelity.py --url http://127.0.0.1:8000 --model-path MODEL --peer-python ml-env/bin/python3 \
        [--log SERVER_LOG] [--concurrency 1 8] [--rounds 4 8] [--output-tokens 256 1024] [--json FILE]

Speed: the controller's client and ``sglang.bench_serving`` take turns (own, peer, peer, own, …) on the same texts with
an empty prefix cache; a round is one turn of each, and its ratio is what counts. Before the first round each has a turn
that does not count. Several requests in flight want more rounds and longer answers: a prefill stops all other requests,
and on a rented H200 the time to the first token moved between 83 and 137 ms from turn to turn. The peer imports once
for all turns, unless ``--peer-command`` is more than a Python program.

Acceptance length: ``meta_info`` of every answer beside the server's counters in ``/metrics`` (``--enable-metrics``)
and, with ``--log``, the lines it logs, in rounds of their own. The gauge ``sglang:spec_accept_length`` is shown and not
judged: it holds the last 40 steps only, so readings are a sample.

The exit code is 1 when a median differs by more than the tolerance. No network is needed with ``--peer-python``.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import os
import shlex
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from controller.load.server import ServerError, flush_cache, server_info
from controller.load.workload import load
from tests.bench.load_clients import ClientRun, Question, can_be_warm, run_own, run_peer, warm_peer
from tests.bench.peer_client import Peer, PeerError, fetched_peer, installed_peer
from tests.gpu.server_witness import Account, Witness

if TYPE_CHECKING:
    from tests.bench.warm_program import WarmProgram


@dataclasses.dataclass(slots=True)
class Level:
    """What was found at one concurrency. Rates are tokens/s per stream, ``ratios`` own / peer, one a round."""

    concurrency: int
    output_tokens: int
    own: list[ClientRun] = dataclasses.field(default_factory=list)
    peer: list[ClientRun] = dataclasses.field(default_factory=list)
    acceptance: list[tuple[ClientRun, Account]] = dataclasses.field(default_factory=list)

    @property
    def decode_ratios(self) -> list[float]:
        """Decode speed, own / peer."""
        return [ours.decode_rate / theirs.decode_rate for ours, theirs in zip(self.own, self.peer, strict=True)]

    @property
    def output_ratios(self) -> list[float]:
        """Tokens of the whole run per second, own / peer."""
        return [ours.output_rate / theirs.output_rate for ours, theirs in zip(self.own, self.peer, strict=True)]

    def as_json(self) -> dict[str, Any]:
        """Return everything, runs included."""
        return {
            "concurrency": self.concurrency,
            "output_tokens": self.output_tokens,
            "own": [run_json(run) for run in self.own],
            "peer": [run_json(run) for run in self.peer],
            "decode_ratio": statistics.median(self.decode_ratios),
            "decode_ratios": self.decode_ratios,
            "output_ratio": statistics.median(self.output_ratios),
            "output_ratios": self.output_ratios,
            "acceptance": [run_json(run) | dataclasses.asdict(said) for run, said in self.acceptance],
        }


def run_json(run: ClientRun) -> dict[str, Any]:
    """Return one run for the record."""
    values = {field.name: getattr(run, field.name) for field in dataclasses.fields(run) if field.name != "cpu"}
    return values | {"acceptance_length": run.acceptance_length}


def measure(
    level: Level, question: Question, peer: Peer, warm: WarmProgram | None, *, rounds: int, log: Path | None
) -> None:
    """Let both clients take turns, then watch what the server says in rounds of their own."""

    def ours() -> None:
        flush_cache(question.url)
        level.own.append(run_own(question))

    def theirs() -> None:
        flush_cache(question.url)
        level.peer.append(run_peer(question, peer, warm))

    for turn in (ours, theirs):  # warm-up, not counted
        turn()
    level.own.clear()
    level.peer.clear()
    for number in range(rounds):
        for turn in (ours, theirs) if number % 2 == 0 else (theirs, ours):
            turn()
    for _ in range(min(rounds, 3)):
        flush_cache(question.url)
        with Witness(question.url, log) as witness:
            run = run_own(question)
        level.acceptance.append((run, witness.account()))


def show(level: Level, tolerance: float) -> bool:
    """Print a level and return whether everything agrees within the tolerance."""
    decode, output = level.decode_ratios, level.output_ratios
    print(f"concurrency {level.concurrency}, {len(decode)} rounds, {level.output_tokens} tokens an answer")
    print(f"  {'':22} {'own':>10} {'peer':>10} {'own / peer':>11}")
    for name, attribute, ratios in (
        ("decode tok/s a stream", "decode_rate", decode),
        ("tok/s of the whole run", "output_rate", output),
    ):
        mine, other = (statistics.median(getattr(run, attribute) for run in runs) for runs in (level.own, level.peer))
        print(
            f"  {name:22} {mine:10.2f} {other:10.2f} {statistics.median(ratios):11.4f}"
            f"  ({min(ratios):.4f} to {max(ratios):.4f})"
        )
    mine, other = (statistics.median(run.ttft_ms for run in runs) for runs in (level.own, level.peer))
    print(f"  {'TTFT ms, median':22} {mine:10.2f} {other:10.2f} {mine - other:+11.2f} ms")
    agreed = [abs(statistics.median(decode) - 1) <= tolerance]
    for name, mine, other, ratios, judged in witnesses(level):
        middle = statistics.median(ratios)
        print(
            f"  {name:42} {mine:10.3f} {other:10.3f} {middle:11.4f}"
            f"  ({min(ratios):.4f} to {max(ratios):.4f}{'' if judged else '; not judged'})"
        )
        agreed += [abs(middle - 1) <= tolerance] if judged else []
    return all(agreed)


def witnesses(level: Level) -> list[tuple[str, float, float, list[float], bool]]:
    """Return (what, our figure, the server's, own / server's by round, whether it is judged).

    With more than one request at a time a decode line does not say how many ran in each of its steps, so it is
    not judged then; nor is the throughput in the log, whose lines do not end where the run ends.
    """
    found = []
    for name, figure, attribute, judged in (
        ("L = (N - 1) / V; counters of /metrics", run_length, "counted_length", True),
        ("L = (N - 1) / V; server's log", run_length, "logged_length", level.concurrency == 1),
        ("L = (N - 1) / V; gauge in /metrics", run_length, "gauge", False),
        ("tok/s of the whole run; server's log", output_rate, "logged_rate", False),
    ):
        both = [
            (ours, said)
            for run, account in level.acceptance
            if (ours := figure(run)) and (said := getattr(account, attribute))
        ]
        if both:
            mine, theirs = (statistics.median(values) for values in zip(*both, strict=True))
            found.append((name, mine, theirs, [ours / said for ours, said in both], judged))
    return found


def run_length(run: ClientRun) -> float | None:
    """Return the acceptance length as a sweep reports it: without the token that no verify step made."""
    return run.acceptance_length


def output_rate(run: ClientRun) -> float:
    """Return the tokens of the whole run per second."""
    return run.output_rate


def main() -> int:
    """Measure every level, print it and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model-path", help="folder of the served model: the peer reads its tokenizer")
    parser.add_argument("--peer-python", help="interpreter that has sglang; default: the release fetched from PyPI")
    parser.add_argument("--peer-command", help="words that start a bench_serving, instead of --peer-python")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, nargs="+", help="of each concurrency (4 of one, else 8)")
    parser.add_argument("--tolerance", type=float, default=0.02, help="largest relative difference of a median")
    parser.add_argument("--waves", type=int, default=8, help="answers of a run for each request in flight, at least 16")
    parser.add_argument("--output-tokens", type=int, nargs="+", help="of each concurrency (256 of one, else 1024)")
    parser.add_argument("--natural-end", action="store_true", help="let answers end where the model ends them")
    parser.add_argument("--workload", default="mixed")
    parser.add_argument("--chat-format", default="plain")
    parser.add_argument("--log", type=Path, help="log of the server")
    parser.add_argument("--json", type=Path, dest="json_file")
    options = parser.parse_args()
    options.rounds = options.rounds or [4 if one == 1 else 8 for one in options.concurrency]
    options.output_tokens = options.output_tokens or [256 if one == 1 else 1024 for one in options.concurrency]
    if {len(options.rounds), len(options.output_tokens)} != {len(options.concurrency)}:
        parser.error("give --rounds and --output-tokens a number for each --concurrency")
    if len(set(options.concurrency)) < len(options.concurrency) or min(options.rounds) < 1:
        parser.error("give each --concurrency once, and --rounds of at least 1")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a level takes minutes
    with tempfile.TemporaryDirectory(prefix="fidelity-") as folder:
        try:
            peer = find_peer(options, Path(folder))
            levels = measure_all(options, peer)
        except (PeerError, ServerError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    agreed = all(level_agreed for _, level_agreed in levels)
    print(f"{'agrees' if agreed else 'DISAGREES'} within {options.tolerance:.1%}; load {os.getloadavg()[0]:.2f}")
    if options.json_file:
        info = server_info(options.url)
        document = {
            "peer": peer.name,
            "agrees": agreed,
            "tolerance": options.tolerance,
            "simulated": info.get("simulated"),
            "sglang": info.get("version"),
            "ignore_eos": not options.natural_end,
            "levels": [level.as_json() for level, _ in levels],
        }
        options.json_file.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if agreed else 1


def find_peer(options: argparse.Namespace, folder: Path) -> Peer:
    """Return the client to compare with."""
    if not options.peer_python and not options.peer_command:
        return fetched_peer()
    if not options.model_path:
        raise PeerError("--model-path is needed too: the peer reads the tokenizer in it.")
    if options.peer_command:
        words = tuple(shlex.split(options.peer_command))
        return Peer(" ".join(words[-1:]), words, options.model_path)
    return installed_peer(options.peer_python, options.model_path, folder)


def measure_all(options: argparse.Namespace, peer: Peer) -> list[tuple[Level, bool]]:
    """Measure and show every level; return each with whether it agrees."""
    sizes = {concurrency: max(16, options.waves * concurrency) for concurrency in options.concurrency}
    workload = load(
        options.workload, concurrency_levels=(1,), repeats=1, prompts_per_run=max(sizes.values()), warmup_prompts=0
    )
    workload = dataclasses.replace(workload, chat_format=options.chat_format)
    texts = tuple(map(workload.text_of, workload.prompts))
    simulated = " (simulated)" if server_info(options.url).get("simulated") else ""
    print(f"own and {peer.name} in turns against {options.url}{simulated}")
    levels = []
    with warm_peer(peer) if can_be_warm(peer) else contextlib.nullcontext() as warm:
        for (concurrency, size), rounds, tokens in zip(
            sizes.items(), options.rounds, options.output_tokens, strict=True
        ):
            level = Level(concurrency, tokens)
            question = Question(options.url, texts[:size], concurrency, tokens, ignore_eos=not options.natural_end)
            measure(level, question, peer, warm, rounds=rounds, log=options.log)
            levels.append((level, show(level, options.tolerance)))
    return levels


if __name__ == "__main__":
    sys.exit(main())
