"""A sweep over 20 hosts that die at random: is anything lost or done twice, and how far from the ideal time is it?

    python tests/bench/bench_fleet.py [--hosts 20] [--cells 200] [--deaths 6] [--seconds 0.5] [--seed 1] [--postgresql]

Simulated: a cell is a pause of a known length (0.8 to 1.2 times --seconds, drawn per cell), and no Ansible runs. Real
are the scheduler, one operating-system process per host, the journal with a record and an fsync for each step of a
cell, and the deaths: SIGKILL at a random moment, mid-write included. --cells counts per host, so the default is 4000.
With --postgresql the blocks are leased from a PostgreSQL started for this run, as with several controllers.

Ideal time: the useful work spread over the hosts while they live. With h(t) hosts alive at time t after the start, it
is the T at which the integral of h reaches the sum of all lengths; starting processes, handing out blocks, unequal ends
and the blocks that a death spoils are what comes on top.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "collections")]

from controller.arms import build_arms  # noqa: E402
from controller.fleet.coordinator import FleetSweep  # noqa: E402
from controller.fleet.shared_leases import SharedLeases  # noqa: E402
from controller.fleet.shared_plan import publish  # noqa: E402
from controller.journal import read_journal  # noqa: E402
from controller.load.workload import load  # noqa: E402
from controller.plan import Plan, schedule  # noqa: E402
from controller.sweep.results import read_sweep  # noqa: E402
from controller.sweep.state import CellState  # noqa: E402
from tests.integration.postgresql import Cluster, missing  # noqa: E402
from tests.unit.controller.fleet.timed_host import Heard, TimedHost  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controller.fleet.ports import Leases

STEPS = (1, 2, 3)
"""With the baseline four arms, so that a block is four launches."""
LIMIT = 1.3
"""Times the ideal."""


@dataclass(frozen=True)
class Outcome:
    """What one sweep came to. Times in seconds."""

    hosts: int
    cells: int
    deaths: int
    wall_s: float
    ideal_s: float
    lost: int
    twice: int
    mixed_blocks: int
    superseded: int
    exit_code: int

    @property
    def ratio(self) -> float:
        return self.wall_s / self.ideal_s


def plan(hosts: Sequence[str], cells: int) -> Plan:
    """Return a plan with so many cells in all."""
    arms = build_arms(STEPS)
    blocks = cells // len(arms)
    return Plan(
        sweep_id="bench", created="", inventory="", limit=",".join(hosts), arms=arms, cells=schedule(arms, blocks, 1),
        blocks=blocks, seed=1, workload={}, workload_fingerprint="", max_running_requests=16, cuda_graph_max_bs=None,
        simulated=True, max_blocks=blocks, hosts=tuple(hosts),
    )  # fmt: skip


def deaths(names: Sequence[str], count: int, until_s: float, generator: random.Random) -> dict[str, float]:
    """Draw which hosts die and when, in seconds after they were taken."""
    return {host: generator.uniform(0, until_s) for host in generator.sample(list(names), count)}


def ideal(work_s: float, hosts: int, dying: Sequence[float]) -> float:
    """Return when the work is done at best, in seconds."""
    left, now, alive = work_s, 0.0, hosts
    for moment in sorted(dying):
        done = alive * (moment - now)
        if done >= left:
            break
        left, now, alive = left - done, moment, alive - 1
    return now + left / alive


def sweep(
    hosts: int, cells: int, dying: int, seconds: float, seed: int, directory: Path, leases: Leases | None = None
) -> Outcome:
    """Run one sweep to its end and count."""
    generator = random.Random(seed)
    names = [f"host{number:02d}" for number in range(1, hosts + 1)]
    dies = deaths(names, dying, cells * seconds / hosts, generator)
    runners = {host: TimedHost(seconds, dies_after_s=dies.get(host), spread=0.2) for host in names}
    decided = plan(names, cells)
    directory.mkdir(parents=True)
    decided.write(directory / "plan.json")
    _, state = read_sweep(directory)
    started = time.monotonic()
    more: dict[str, Any] = {} if leases is None else {"leases": leases}
    end = FleetSweep(decided, directory, state, runners, Heard(), **more).run()
    wall = time.monotonic() - started
    return replace(
        count(directory),
        hosts=hosts,
        deaths=dying,
        wall_s=wall,
        ideal_s=ideal(sum(TimedHost(seconds, spread=0.2).length(cell.cell_id) for cell in decided.cells), hosts,
                      list(dies.values())),
        exit_code=int(end.exit_code),
    )  # fmt: skip


@contextlib.contextmanager
def leases(hosts: int, cells: int) -> Iterator[Leases]:
    """Start a database, publish the plan and yield leases of it."""
    if absent := missing():
        raise SystemExit(absent)
    cluster = Cluster.start()
    try:
        publish(cluster.url, plan([f"host{number:02d}" for number in range(1, hosts + 1)], cells), load("mixed"))
        yield SharedLeases(cluster.url, "bench", "bench", lease_s=10.0)
    finally:
        cluster.remove()


def count(directory: Path) -> Outcome:
    """Count from the journal alone: what was measured, what twice, which block has launches of two hosts."""
    decided, state = read_sweep(directory)
    done = [cell for cell in decided.cells if state.cell(cell.cell_id).state is CellState.DONE]
    hosts: dict[int, set[str]] = {}
    for cell in done:
        hosts.setdefault(cell.block, set()).add(state.cell(cell.cell_id).host)
    return Outcome(
        hosts=0, cells=len(decided.cells), deaths=0, wall_s=0.0, ideal_s=1.0, lost=len(decided.cells) - len(done),
        twice=sum(history.times_done > 1 for history in state.cells.values()),
        mixed_blocks=sum(len(one) > 1 for one in hosts.values()), superseded=len(state.superseded), exit_code=0,
    )  # fmt: skip


def fsync_ms(directory: Path) -> float:
    """Return the median time of an append with fsync here: the floor of a record."""
    times = []
    with (directory / "probe").open("ab") as file:
        for _ in range(50):
            started = time.perf_counter()
            file.write(b"x" * 200)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


def main() -> int:
    """Run and print; exit with 1 when something is lost, done twice, or too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--cells", type=int, default=200, help="per host")
    parser.add_argument("--deaths", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgresql", action="store_true", help="lease the blocks from a database of this run")
    parser.add_argument("--directory", type=Path, help="keep the journal there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.directory or Path(scratch)) / "sweep"
        print(f"fsync here: {fsync_ms(Path(scratch)):.2f} ms; {os.cpu_count()} cores")
        cells = options.hosts * options.cells
        with leases(options.hosts, cells) if options.postgresql else contextlib.nullcontext() as shared:
            found = sweep(options.hosts, cells, options.deaths, options.seconds, options.seed, folder, shared)
        records = len(read_journal(folder / "journal.jsonl").records)
    print(
        f"{found.hosts} hosts (simulated), {found.cells} cells, {found.deaths} hosts killed: {found.lost} lost, "
        f"{found.twice} twice, {found.mixed_blocks} blocks of two hosts, {found.superseded} launches done again, "
        f"exit code {found.exit_code}, {records} records"
    )
    print(f"wall {found.wall_s:.1f} s, ideal {found.ideal_s:.1f} s: {found.ratio:.2f} times the ideal (limit {LIMIT})")
    print(json.dumps({**found.__dict__, "ratio": round(found.ratio, 3)}))
    return int(bool(found.lost or found.twice or found.mixed_blocks or found.exit_code or found.ratio > LIMIT))


if __name__ == "__main__":
    raise SystemExit(main())
