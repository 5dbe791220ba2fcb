"""Hosts that are killed at random, and the controller too: nothing is lost, nothing done twice, no block is mixed.

The hosts are simulated (a cell is a pause); processes, journal and SIGKILL are real. ``tests/bench/bench_fleet.py`` is
the same with 20 hosts and the time measured. ``CONTROLLER_FLEET_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from controller.exits import Exit
from tests.bench.bench_fleet import count, sweep
from tests.unit.controller.fleet.test_coordinator import run
from tests.unit.controller.fleet.timed_host import TimedHost

if TYPE_CHECKING:
    from pathlib import Path

SEED = int(os.environ.get("CONTROLLER_FLEET_SEED", str(random.randrange(2**31))))


def test_half_of_the_hosts_die_at_random(tmp_path: Path) -> None:
    found = sweep(8, 96, 4, 0.1, SEED, tmp_path / "s")
    what = f"seed {SEED}: {found}"
    assert found.exit_code == Exit.OK, what
    assert (found.lost, found.twice, found.mixed_blocks) == (0, 0, 0), what


@pytest.mark.parametrize("round_", range(2))
def test_all_hosts_die_and_the_sweep_is_resumed(tmp_path: Path, round_: int) -> None:
    moments = random.Random(f"{SEED}-{round_}")
    hosts = {name: TimedHost(0.05, dies_after_s=moments.uniform(0.0, 1.0)) for name in ("a", "b", "c")}
    end = run(tmp_path / "s", hosts, blocks=24)
    what = f"seed {SEED}, round {round_}: {end}"
    assert end.exit_code is Exit.TARGET, what
    assert "nothing measured was lost" in end.sentences[-1], what
    before = count(tmp_path / "s")
    end = run(tmp_path / "s", {name: TimedHost(0.01) for name in ("b", "c")}, blocks=24)
    after = count(tmp_path / "s")
    assert end.exit_code is Exit.OK, what
    assert (after.lost, after.twice, after.mixed_blocks) == (0, 0, 0), what
    # Only a block that "a" had half done is done anew; "b" and "c" go on with theirs.
    assert after.superseded - before.superseded <= 2, what
