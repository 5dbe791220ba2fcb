"""What the controller and Ansible cost per launch beside a shell script, on a running machine with the real server.

    python3 -m tests.gpu.cost --inventory INVENTORY --root ROOT --out OUT [--rounds 2] [--cells 1] [--steps 3]
        [--workload FILE] [--prompts-per-run 8] [--output-tokens 256] [--poll 1]
    python3 -m tests.gpu.cost --after SWEEP --watched FILE --root ROOT --out OUT [--cells 2] [--steps 3] [--poll 1]

A round is a sweep of one arm with 1 + CELLS launches, then CELLS launches by ``tests/bench/bare_cell.sh`` with the argv
and the environment of the sweep's last launch: it ends the old launch, sees that the GPUs are free, starts, polls
/health and reads /server_info; then the same requests are sent with the same client. A launch that runs deploy.yml too,
as the first ones of a sweep do, is shown apart. A watcher notes from processes and logs alone how long each server
itself took: from the start of its process until it said that it is fired up, and from being asked to end until it was
gone. The rest, load taken out as the sum of the runs, is the cost. ROOT holds ml-env, models and state
(``prepare.sh``). With --after no sweep is run: the launches are those of a sweep that has just ended, which
``python3 -m tests.bench.server_watch ROOT FILE`` watched.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from controller.journal import Record, read_journal
from controller.load.records import RequestRecord
from controller.plan import Plan
from controller.sweep.http_load import HttpLoad
from controller.sweep.prepare import frozen_workload
from tests.bench.server_watch import ServerWatch, read_lives, start_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BARE = Path(__file__).resolve().parents[1] / "bench" / "bare_cell.sh"


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One launch and its load, from the end of the one before; seconds.

    Attributes:
        who: ``bare``, ``controller``, or ``deploying`` for a launch of a sweep that ran deploy.yml too.
        wall: All of it.
        loading: The server, from the start of its process until it serves.
        stopping: The server before, from being asked to end until it was gone.
        load: Warm-up and run.
    """

    who: str
    wall: float
    loading: float
    stopping: float
    load: float

    @property
    def rest(self) -> float:
        """Return what neither the server nor the load took."""
        return self.wall - self.loading - self.stopping - self.load


def load_s(runs: Iterable[Sequence[RequestRecord]]) -> float:
    """Return how long requests were in flight, summed over runs."""
    return sum(max(record.started_s + record.e2e_s for record in run) for run in runs if run)


def time_scale(server: Record) -> float:
    """Return wire seconds per second of the machine that a server stands for: 1 for a real one."""
    simulated = (server.get("info") or {}).get("simulated") or {}
    return float(simulated.get("time_scale", 1.0))


def sweep(options: argparse.Namespace, directory: Path) -> float:
    """Sweep one arm and leave its last server running; return the seconds of the whole command.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, "-m", "controller", "sweep", "--steps", str(options.steps), "--no-baseline"]
    command += ["--no-confirm", "--no-report", "--leave-running", "--plain", "--blocks", str(1 + options.cells)]
    command += ["--inventory", str(options.inventory), "--dir", str(directory), "--workload", options.workload]
    command += ["--prompts-per-run", str(options.prompts_per_run), "--output-tokens", str(options.output_tokens)]
    begun = time.time()
    with directory.with_suffix(".txt").open("w") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise SystemExit(f"error: the sweep in {directory} ended with {done.returncode}; see {directory}.txt")
    return time.time() - begun


def sweep_parts(directory: Path, watch: ServerWatch) -> list[Part]:
    """Read the launches of a sweep from its journal."""
    begun: dict[str, float] = {}
    deploying: set[str] = set()
    scale = 1.0  # of a simulated server: its records are in seconds of the machine that it stands for
    runs: dict[str, list[list[RequestRecord]]] = {}
    found: list[Part] = []
    for record in read_journal(directory / "journal.jsonl").records:
        cell = str(record.get("cell"))
        if record["kind"] == "server":
            scale = time_scale(record)
        elif record["kind"] == "playbook" and record["playbook"] == "deploy.yml":
            deploying.add(cell)
        elif record["kind"] == "run":
            runs.setdefault(cell, []).append([RequestRecord.from_json(one) for one in record["requests"]])
        elif record["kind"] == "cell" and record["state"] == "launching":
            begun.setdefault(cell, record["at"])
        elif record["kind"] == "cell" and record["state"] == "done":
            begin, end = begun[cell], record["at"]
            who = "deploying" if cell in deploying else "controller"
            loading, stopping = watch.loading_s(begin, end), watch.stopping_s(begin, end)
            found.append(Part(who, end - begin, loading, stopping, load_s(runs[cell]) * scale))
    return found


def last_server(directory: Path, steps: int) -> Record:
    """Return what the journal says of the last server that always took this number of draft steps.

    Raises:
        SystemExit: there was none.
    """
    for record in reversed(read_journal(directory / "journal.jsonl").records):
        words = f"{' '.join(record['launch']['argv'])} " if record["kind"] == "server" else ""
        if f"--speculative-num-steps {steps} " in words and "--speculative-adaptive" not in words:
            return record
    raise SystemExit(f"error: no server of {directory} had {steps} draft steps; name others with --steps.")


def beside_launches_s(directory: Path) -> float:
    """Return the seconds of a sweep that belong to no launch, measured or failed, from its first record to its last.

    A cell that was not launched has failed without having begun.
    """
    records = read_journal(directory / "journal.jsonl").records
    launches_s = 0.0
    begun: dict[str, float] = {}
    for record in records:
        if record["kind"] == "cell" and record["state"] == "launching":
            begun[record["cell"]] = record["at"]
        elif record["kind"] == "cell" and record["state"] in ("done", "failed"):
            launches_s += record["at"] - begun.pop(record["cell"], record["at"])
    return float(records[-1]["at"] - records[0]["at"]) - launches_s


class BareScript:
    """Launches with the shell script what a sweep launched, and sends what the sweep sent.

    The sweep has left a server running. It is the one that the script ends first.
    """

    def __init__(self, root: Path, directory: Path, poll_s: float, steps: int) -> None:
        self._root = root
        self._poll_s = poll_s
        self._record_file = root / "state" / "launch.json"
        left = json.loads(self._record_file.read_text())
        self._server = last_server(directory, steps)
        self._argv = list(map(str, self._server["launch"]["argv"]))
        self._environment = {name: str(value) for name, value in left["environment"].items()}
        plan = Plan.read(directory / "plan.json")
        self._load = HttpLoad(frozen_workload(plan, directory))
        self._pid_file = root / "state" / "bare.pid"
        self._pid_file.write_text(f"{left['pid']}\n")

    def launch(self, watch: ServerWatch) -> Part:
        """Launch once and send warm-up and run."""
        log = self._root / "logs" / "bare.log"
        url, scale, port = str(self._server["url"]), time_scale(self._server), str(self._server["launch"]["port"])
        command = [str(BARE), str(self._root), port, str(self._poll_s), str(log), f"{log}.kept", "--"]
        begin = time.time()
        subprocess.run([*command, *self._argv], env=os.environ | self._environment, check=True)
        runs = []
        for warmup in (True, False):
            self._load.flush_cache(url)
            runs.append(
                self._load.run(url, run=0, concurrency=1, warmup=warmup, time_scale=scale, on_tokens=lambda *_: None)
            )
        end = time.time()
        time.sleep(2 * 0.05)  # the watcher's look
        loading, stopping = watch.loading_s(begin, end), watch.stopping_s(begin, end)
        return Part("bare", end - begin, loading, stopping, load_s(runs) * scale)

    def hand_over(self) -> None:
        """Let the controller know the script's server as its own, as if it had been launched by it."""
        pid = int(self._pid_file.read_text()) if self._pid_file.exists() else 0
        if not Path(f"/proc/{pid}/stat").exists():  # it was not even started, or has died
            return
        record = json.loads(self._record_file.read_text())
        record |= {"argv": self._argv, "pid": pid, "session": pid}
        record |= {"start_ticks": start_ticks(pid), "started_at": time.time()}
        self._record_file.write_text(json.dumps(record))


def show(parts: Sequence[Part], outside: Sequence[float], *, simulated: bool) -> dict[str, Any]:
    """Print every launch, the medians and the ratio; return them."""
    print(f"seconds{' (simulated server)' if simulated else ''}")
    print(f"{'launch by':12} {'wall':>8} {'loading':>8} {'stopping':>9} {'load':>7} {'rest':>7}")
    for part in parts:
        print(
            f"{part.who:12} {part.wall:8.2f} {part.loading:8.2f} {part.stopping:9.2f} {part.load:7.2f} {part.rest:7.2f}"
        )
    if not {part.who for part in parts} >= {"bare", "controller"}:
        raise SystemExit("error: nothing to compare: a sweep needs a launch that does not run deploy.yml too.")
    bare, own = (statistics.median(part.rest for part in parts if part.who == who) for who in ("bare", "controller"))
    walls = {who: statistics.median(part.wall for part in parts if part.who == who) for who in ("bare", "controller")}
    beside = statistics.median(outside)
    print(f"medians of the rest: shell script {bare:.2f} s, controller {own:.2f} s, ratio {own / bare:.2f}")
    print(f"of a whole launch that is {own - bare:+.2f} s of {walls['controller']:.1f} s")
    print(f"a sweep beside its launches: {beside:.2f} s (start, plan, end)")
    return {"bare_s": bare, "controller_s": own, "ratio": own / bare, "sweep_beside_launches_s": beside}


def rounds(options: argparse.Namespace) -> tuple[list[Part], list[float]]:
    """Let sweeps of one arm and the script take turns."""
    parts: list[Part] = []
    outside = []
    bare = None
    with ServerWatch(options.root) as watch:
        for number in range(1, options.rounds + 1):
            if bare:
                bare.hand_over()
            directory = options.out / f"sweep-{number}"
            whole = sweep(options, directory)
            swept = sweep_parts(directory, watch)
            outside.append(whole - sum(part.wall for part in swept))
            parts += swept
            bare = BareScript(options.root, directory, options.poll, options.steps)
            parts += [bare.launch(watch) for _ in range(options.cells)]
    if bare:
        bare.hand_over()
    return parts, outside


def after_sweep(options: argparse.Namespace) -> tuple[list[Part], list[float]]:
    """Launch by the script after a sweep whose launches another process watched."""
    swept = sweep_parts(options.after, ServerWatch(options.root, before=read_lives(options.watched)))
    bare = BareScript(options.root, options.after, options.poll, options.steps)
    try:
        with ServerWatch(options.root) as watch:
            by_script = [bare.launch(watch) for _ in range(options.cells)]
    finally:
        bare.hand_over()
    return [*swept, *by_script], [beside_launches_s(options.after)]


def main() -> int:
    """Run the rounds and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inventory", type=Path, help="for the sweeps; not with --after")
    parser.add_argument("--after", type=Path, help="a sweep that has just ended and left its last server running")
    parser.add_argument("--watched", type=Path, help="what server_watch kept of that sweep")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cells", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--workload", default="mixed")
    parser.add_argument("--prompts-per-run", type=int, default=8)
    parser.add_argument("--output-tokens", type=int, default=256)
    parser.add_argument("--poll", type=float, default=1.0, help="seconds between two curls of the shell script")
    options = parser.parse_args()
    if (options.after is None) != (options.watched is None) or (options.after or options.inventory) is None:
        parser.error("name either --inventory, or --after and --watched")
    options.out.mkdir(parents=True, exist_ok=True)
    parts, outside = after_sweep(options) if options.after else rounds(options)
    simulated = (options.root / "node.json").exists()
    medians = show(parts, outside, simulated=simulated)
    rows = [dataclasses.asdict(part) | {"rest": part.rest} for part in parts]
    document = {"simulated": simulated, "poll_s": options.poll, "launches": rows, **medians}
    (options.out / "cost.json").write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
