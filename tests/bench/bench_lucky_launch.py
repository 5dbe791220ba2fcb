"""Whether one lucky launch decides: each setting launched once, as ``sglang.auto_benchmark`` does, against blocks.

    python tests/bench/bench_lucky_launch.py [--tool PYTHON] [--steps 1,2,3] [--blocks 3] [--factor 0.55] [--json]

On a simulated node where speculation hurts (profile fast: 83 tok/s without, about 60 with three steps). The procedure
of sglang.auto_benchmark 0.5.15 (auto_benchmark_lib.py: run_trial, result_sort_key) is played with its own measuring
client, ``sglang.bench_serving``: every setting is launched once, in order, without speculation first, measured once and
ended by SIGTERM; the highest output throughput is the best. With --tool the tool itself does it: PYTHON is an
interpreter with SGLang 0.5.15 and torch (no GPU), and what it launches is the simulated server. It searches twice, the
second time with a lucky launch planted at the last setting. Then ``controller sweep`` measures the same settings with
a launch of that setting as lucky. Exit code 1 when the sweep names that setting.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from controller.arms import build_arms
from controller.load.workload import load
from controller.plan import schedule
from tests.bench.load_clients import Question, run_peer
from tests.bench.peer_client import Peer, PeerError, fetched_peer, installed_peer, make_tokenizer
from tests.gpu import auto_benchmark
from tests.integration.simulated_sweep import SimulatedSweep

OUTPUT_TOKENS = 128
PROMPTS = 8
SEED = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Search:
    """What a procedure came to. ``chosen`` is the arm that it names, None when it names none."""

    name: str
    launches: int
    seconds: float
    chosen: str | None
    detail: str


class OneLaunchEach:
    """The peer's procedure on a simulated node whose draft fits already."""

    def __init__(self, node: SimulatedSweep, peer: Peer) -> None:
        self._node = node
        self._peer = peer
        record = json.loads((node.node.path / "state" / "launch.json").read_text())
        self._environment = os.environ | {name: str(value) for name, value in record["environment"].items()}
        argv: list[str] = record["argv"]
        self._argv = [word for number, word in enumerate(argv) if not _speculative(argv, number)]
        self._draft = argv[argv.index("--speculative-draft-model-path") + 1]
        _end(int(record["pid"]))
        self._texts = texts()

    def search(self, name: str, settings: list[int | None]) -> Search:
        """Launch every setting once and name the fastest."""
        begun = time.monotonic()
        rates = {arm_of(steps): self._trial(steps) for steps in settings}
        detail = ", ".join(f"{arm} {rate:.1f}" for arm, rate in rates.items())
        return Search(name, len(settings), time.monotonic() - begun, max(rates, key=lambda arm: rates[arm]), detail)

    def _trial(self, steps: int | None) -> float:
        """Launch one setting, measure it once, end it; return output tokens/s of the machine it stands for."""
        command = [*self._argv]
        if steps is not None:
            command += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", self._draft]
            command += ["--speculative-eagle-topk", "1", "--speculative-num-steps", str(steps)]
            command += ["--speculative-num-draft-tokens", str(steps + 1)]
        url = f"http://127.0.0.1:{self._node.port}"
        with tempfile.TemporaryFile() as log:
            server = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=self._environment, start_new_session=True
            )
            try:
                _until_healthy(url, server)
                question = Question(url, self._texts, 1, OUTPUT_TOKENS)
                scale = float(self._node.node.settings["time_scale"])
                return run_peer(question, self._peer).output_rate * scale
            finally:
                os.killpg(server.pid, signal.SIGTERM)
                server.wait(20)


class ToolItself:
    """``sglang.auto_benchmark`` on a simulated node whose draft fits already."""

    def __init__(self, node: SimulatedSweep, python: str) -> None:
        self._node = node
        self._folder = Path(tempfile.mkdtemp(dir=node.node.path, prefix="tool-"))
        self._launch = json.loads((node.node.path / "state" / "launch.json").read_text())
        _end(int(self._launch["pid"]))
        tokenizer = self._folder / "tokenizer"
        make_tokenizer(tokenizer)
        self._peer = installed_peer(python, str(tokenizer), self._folder / "stand-in")
        prompts = self._folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts()))
        self._dataset = self._folder / "dataset.jsonl"
        auto_benchmark.write_dataset(prompts, self._dataset, PROMPTS, OUTPUT_TOKENS)

    def search(self, name: str, settings: list[int | None]) -> Search:
        """Let the tool search the settings and read what it concludes."""
        out = Path(tempfile.mkdtemp(dir=self._folder))
        steps = [one for one in settings if one is not None]
        found = auto_benchmark.search(self._peer, self._launch, self._dataset, out, steps, PROMPTS)
        scale = float(self._node.node.settings["time_scale"])
        rates = {arm_of(row["steps"]): (row["output_tokens_per_s"] or 0.0) * scale for row in found["rows"]}
        detail = ", ".join(f"{arm} {rate:.1f}" for arm, rate in rates.items())
        return Search(name, found["launches"], found["seconds"], arm_of(found["best"]["steps"]), detail)


def texts() -> tuple[str, ...]:
    """Return the prompts that every search sends."""
    workload = load("mixed", concurrency_levels=(1,), repeats=1, prompts_per_run=PROMPTS, warmup_prompts=0)
    return tuple(map(workload.text_of, workload.prompts))[:PROMPTS]


def arm_of(steps: int | None) -> str:
    """Return what a sweep calls a setting."""
    return "baseline" if steps is None else f"steps-{steps}"


def _speculative(argv: list[str], number: int) -> bool:
    """Whether a word of a launch is a flag of speculation or the value of one."""
    flag = next((word for word in reversed(argv[: number + 1]) if word.startswith("--")), "")
    return flag.startswith("--speculative-")


def _end(pid: int) -> None:
    """End a server that is nobody's child here, as the tool ends what listens on its port."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.1)


def _until_healthy(url: str, server: subprocess.Popen[bytes], timeout: float = 120) -> None:
    """Wait until the server answers.

    Raises:
        SystemExit: it died or took too long.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:  # noqa: S310 - the simulated node
                if answer.status == 200:
                    return
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
    raise SystemExit("error: the simulated server was not ready in time")


def launches_so_far(node: SimulatedSweep) -> int:
    """Return how many launches the node has counted."""
    return int((node.node.path / "state" / "launches").read_text())


def plant(node: SimulatedSweep, launch: int, factor: float) -> None:
    """Make one launch to come lucky, counted from the next."""
    lucky = {"launch": launches_so_far(node) + launch, "factor": factor}
    node.node.configure(faults={"lucky_launch": lucky})


def sweep_search(node: SimulatedSweep, steps: tuple[int, ...], blocks: int, factor: float) -> Search:
    """Sweep the same settings while the first launch of the last of them is lucky."""
    order = [cell.arm for cell in schedule(build_arms(steps), blocks, SEED)]
    plant(node, order.index(arm_of(steps[-1])) + 1, factor)
    words = ("sweep", "-i", str(node.inventory), "--dir", str(node.sweep_directory), "--seed", str(SEED), "--json")
    load_words = ("--output-tokens", str(OUTPUT_TOKENS), "--prompts-per-run", str(PROMPTS), "--blocks", str(blocks))
    begun = time.monotonic()
    done = node.run(*words, *load_words, "--steps", ",".join(map(str, steps)), timeout=1200)
    if done.returncode:
        raise SystemExit(f"error: the sweep ended with {done.returncode}: {done.stderr[-500:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    level = result["analysis"]["levels"][0]
    choice = level["recommendation"]
    named = None if choice["status"] in {"UNDECIDED", "NONE"} else choice["arm"]
    detail = ", ".join(f"{arm['arm']} {arm['verdict']}" for arm in level["arms"] if not arm["is_baseline"])
    return Search("controller sweep, one lucky", len(result["cells"]), time.monotonic() - begun, named, detail)


def main() -> int:
    """Play both procedures and print what each names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", metavar="PYTHON", help="interpreter with sglang 0.5.15: let the tool itself search")
    parser.add_argument("--steps", default="1,2,3")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--factor", type=float, default=0.55, help="time that the lucky launch takes, of the usual")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    steps = tuple(int(word) for word in options.steps.split(","))
    settings: list[int | None] = [None, *steps]
    tool = "sglang.auto_benchmark" if options.tool else "one launch a setting"
    try:
        peer = None if options.tool else fetched_peer()
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        node = SimulatedSweep.create(Path(folder))
        try:
            first = node.run("sweep", "-i", str(node.inventory), "--dir", f"{folder}/first", *DRAFT_ONLY)
            if first.returncode:
                raise SystemExit(f"error: the first launch failed: {first.stderr[-500:]}")
            once = OneLaunchEach(node, peer) if peer else ToolItself(node, options.tool)
            found = [once.search(tool, settings)]
            plant(node, len(settings), options.factor)
            found.append(once.search(f"{tool}, one lucky", settings))
            found.append(sweep_search(node, steps, options.blocks, options.factor))
        finally:
            node.clean()
    if options.json:
        print(json.dumps({"simulated": True, "searches": [dataclasses.asdict(one) for one in found]}))
    else:
        print("on a simulated node" + (f"; client of the searches by single launches: {peer.name}" if peer else ""))
        for one in found:
            print(f"{one.name:32} {one.launches:3} launches {one.seconds:5.0f} s  names {one.chosen or 'none'}")
            print(f"{'':32} {one.detail}")
    return int(found[-1].chosen == arm_of(steps[-1]))


DRAFT_ONLY = ("--steps", "3", "--no-baseline", "--blocks", "1", "--no-confirm", "--no-report", "--leave-running")
"""A sweep of one launch that stays: the draft fits and the launch's command is known."""


if __name__ == "__main__":
    sys.exit(main())
