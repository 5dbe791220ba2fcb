"""What a sweep cell costs beside the server's own loading and the load: the controller against a bare shell script.

Both do the same work on the same simulated node, one after the other, round by round: stop the old server, see that
the GPUs are free, launch, wait until it is healthy, read /server_info and compare, see that this launch answers, keep
the log. The server's own loading is taken out of both in the same way: from the start of its process (kernel clock)
until it is serving, watched by a thread of the benchmark; it varies, so that no poll is lucky. No load is sent, but its
time passes, because Ansible starts up for the next cell meanwhile.

A server looks for SIGTERM every 5 s (sglang 0.5.15, managers/tokenizer_manager.py, sigterm_watchdog). Both wait for
that at its real length, met at a random moment, unless --shutdown-scale shortens it and leaves the fixed costs alone.

The script asks /health once a second, as such scripts do; each answer costs a real server a token and about a second.
The processor time of both is printed too: it is what remains comparable on a busy machine.

    python tests/bench/bench_cell_overhead.py [--rounds 7] [--poll 1] [--shutdown-scale 1] [--json] [--fail-above 2.0]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from controller.ahead import AheadOfTime  # noqa: E402
from controller.arms import build_arms  # noqa: E402
from controller.inventory import read_target  # noqa: E402
from controller.journal import Journal  # noqa: E402
from controller.plan import Cell, Plan, schedule  # noqa: E402
from controller.playbooks import Playbooks  # noqa: E402
from controller.sweep.cell import CellRunner  # noqa: E402
from controller.sweep.gate import ConfigurationGate  # noqa: E402
from controller.sweep.interrupt import Interrupts  # noqa: E402
from controller.sweep.ports import SilentWatcher  # noqa: E402
from tests.bench.server_watch import leaders, start_ticks, started_s  # noqa: E402
from tests.integration.simulated_sweep import SimulatedSweep  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controller.load.records import RequestRecord

BARE = Path(__file__).with_name("bare_cell.sh")
STEPS = 3
CPU = ("bare_cpu_s", "controller_cpu_s")


LOAD_S = 0.5


class NoLoad:
    """Sends nothing, but takes its time as a load does: the next Ansible starts up meanwhile. Its time is taken out."""

    levels: Sequence[int] = (1,)
    repeats = 1

    def server_info(self, base_url: str) -> Mapping[str, Any]:
        del base_url
        return {}

    def flush_cache(self, base_url: str) -> None:
        del base_url

    def run(
        self,
        base_url: str,
        *,
        run: int,
        concurrency: int,
        warmup: bool,
        time_scale: float,
        on_tokens: Callable[[int, float], None],
    ) -> Sequence[RequestRecord]:
        del base_url, run, concurrency, warmup, time_scale, on_tokens
        time.sleep(LOAD_S)
        return []


class Loading:
    """Measures how long the next server takes from the start of its process until it serves, without slowing it."""

    def __init__(self, node: Path, port: int, old: int | None) -> None:
        self._node, self._port, self._old = node, port, old
        self.pid: int | None = None
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while (pid := self._leader()) is None:
            time.sleep(0.05)
        self.pid = pid
        while not self._healthy():
            time.sleep(0.03)
        self.seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - started_s(pid)

    def result(self) -> float:
        self._thread.join(60)
        return self.seconds

    def _leader(self) -> int | None:
        """The launcher is the oldest process whose command line is the launch of this node's interpreter."""
        found = leaders(self._node)
        return next((pid for pid in found if pid != self._old), None)

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


def child_cpu_s() -> float:
    """Return the processor time of ended child processes; the server is nobody's child, so it does not count."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Bench:
    """One node, used by both in turn."""

    def __init__(self, root: Path, poll_s: float, shutdown_scale: float) -> None:
        self.simulated = SimulatedSweep.create(root)
        self.simulated.node.configure(shutdown_scale=shutdown_scale)
        self._shutdown_scale = shutdown_scale
        os.environ.update(self.simulated.environment)
        self.poll_s = poll_s
        self.node = self.simulated.node.path
        self.target = read_target(self.simulated.inventory)
        arms = build_arms((STEPS,), with_baseline=False)
        self.plan = Plan(
            sweep_id="bench",
            created="",
            inventory=str(self.simulated.inventory),
            limit=self.target.host,
            arms=arms,
            cells=schedule(arms, 1000, 0),
            blocks=1000,
            seed=0,
            workload={},
            workload_fingerprint="",
            max_running_requests=16,
            cuda_graph_max_bs=None,
            simulated=True,
        )
        self.journal = Journal(root / "journal.jsonl")
        self.launch: dict[str, Any] = {}
        self.old: int | None = None
        interrupts = Interrupts(lambda: "")
        watcher = SilentWatcher()
        self.runner = CellRunner(
            self.plan,
            root,
            self.target.variables,
            AheadOfTime(Playbooks(self.target)),
            NoLoad(),
            self.journal,
            watcher,
            interrupts,
            ConfigurationGate(root, self.journal, watcher),
        )
        self._log: Any = None
        self._random = random.Random(0)
        self._loading_scale = float(json.loads((self.node / "node.json").read_text())["loading_scale"])
        self._number = 0

    def controller(self) -> tuple[float, float]:
        """Run one cell; return its wall time, the server's loading, in seconds."""
        cell: Cell = self.plan.cells[self._number]
        self._number += 1
        self._vary_loading()
        loading = Loading(self.node, self.simulated.port, self.old)
        started = time.perf_counter()
        outcome = self.runner.run(cell, 1, self._log, (self.plan.cells[self._number], 1))
        wall = time.perf_counter() - started - 2 * LOAD_S  # warm-up and one run
        if outcome.state.value != "done":
            raise SystemExit(f"the controller's cell failed: {outcome.failure}")
        self._log = outcome.log
        # Not the first that was seen: while a node is prepared, the launcher is asked for its flags too.
        self.old = int(json.loads((self.node / "state" / "launch.json").read_text())["pid"])
        return wall, loading.result()

    def bare(self) -> tuple[float, float]:
        """Run the shell script; return its wall time and the server's loading."""
        launch = self.launch
        log = self.node / "logs" / "bare.log"
        command = [
            str(BARE),
            str(self.node),
            str(self.simulated.port),
            str(self.poll_s),
            str(log),
            f"{log}.kept",
            "--",
            *launch["argv"],
        ]
        self._vary_loading()
        loading = Loading(self.node, self.simulated.port, self.old)
        started = time.perf_counter()
        subprocess.run(command, env=os.environ | launch["environment"], check=True)
        wall = time.perf_counter() - started
        self.old = loading.pid
        return wall, loading.result()

    def prepare(self) -> None:
        """Deploy once, so that the draft fits and the command is known; not measured."""
        self.controller()
        record = json.loads((self.node / "state" / "launch.json").read_text())
        self.launch = {"argv": record["argv"], "environment": record["environment"]}

    def hand_over_to_bare(self) -> None:
        """Let the script know the server that the controller launched: it stops it by its process id."""
        (self.node / "state" / "bare.pid").write_text(f"{self.old}\n")

    def hand_over_to_controller(self) -> None:
        """Let the controller know the script's server as its own launch, as if it had been launched by it."""
        path = self.node / "state" / "launch.json"
        record = json.loads(path.read_text())
        assert self.old is not None
        ticks = start_ticks(self.old)
        record |= {"pid": self.old, "session": self.old, "start_ticks": ticks, "started_at": time.time()}
        path.write_text(json.dumps(record))

    def pass_time(self) -> None:
        """Let the server run on for a while, so that SIGTERM meets its 5 s tick at a random moment."""
        time.sleep(self._random.uniform(0, 5 * self._shutdown_scale))

    def _vary_loading(self) -> None:
        # Loading that always ends at the same moment would favour or punish a poll by accident.
        self.simulated.node.configure(loading_scale=self._loading_scale * self._random.uniform(0.5, 2.5))

    def close(self) -> None:
        self.runner.playbooks.discard()
        self.simulated.clean()
        self.journal.close()


def main() -> int:
    """Run the rounds and print both overheads and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--poll", type=float, default=1.0, help="seconds between two curls of the shell script")
    parser.add_argument("--shutdown-scale", type=float, default=1.0, help="1: a stop takes as long as the real one")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fail-above", type=float, help="exit with 1 when the ratio of the medians is larger")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        bench = Bench(Path(folder), options.poll, options.shutdown_scale)
        try:
            bench.prepare()
            rows = []
            for number in range(options.rounds):
                bench.pass_time()
                bench.hand_over_to_bare()
                before = child_cpu_s()
                bare_wall, bare_loading = bench.bare()
                bare_cpu = child_cpu_s() - before
                bench.pass_time()
                bench.hand_over_to_controller()
                before = child_cpu_s()
                wall, loading = bench.controller()
                cpu = child_cpu_s() - before
                row = {
                    "bare_s": bare_wall - bare_loading,
                    "controller_s": wall - loading,
                    "bare_loading_s": bare_loading,
                    "controller_loading_s": loading,
                    "bare_cpu_s": bare_cpu,
                    "controller_cpu_s": cpu,
                }
                rows.append(row)
                if not options.json:
                    print(
                        f"round {number + 1}: " + ", ".join(f"{name} {value:.2f}" for name, value in row.items()),
                        flush=True,
                    )
        finally:
            bench.close()
    bare, controller = median(row["bare_s"] for row in rows), median(row["controller_s"] for row in rows)
    ratio = controller / bare
    medians = {"bare_s": bare, "controller_s": controller, "ratio": ratio}
    if options.json:
        print(
            json.dumps(
                {
                    "simulated": True,
                    "poll_s": options.poll,
                    "shutdown_scale": options.shutdown_scale,
                    "rounds": rows,
                    **medians,
                }
            )
        )
    else:
        print(f"medians of {len(rows)} rounds on a simulated node (seconds beside loading and load):")
        print(f"bare shell script {bare:.2f} s, controller {controller:.2f} s, ratio {ratio:.2f}")
        print("processor time: " + ", ".join(f"{name} {median(row[name] for row in rows):.2f}" for name in CPU))
    return int(options.fail_above is not None and ratio > options.fail_above)


if __name__ == "__main__":
    sys.exit(main())
