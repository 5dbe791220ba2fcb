"""kill -9 at a random moment, then resume: nothing finished is lost, nothing is measured twice, nothing runs unnoticed.

One round by default; ``CONTROLLER_KILL_ROUNDS=100`` for more, ``CONTROLLER_KILL_SEED`` to repeat a series.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from controller.exits import ControllerError
from controller.journal import read_journal
from tests.integration.simulated_sweep import SimulatedSweep
from tests.integration.users_program import SMALL_LOAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROUNDS = int(os.environ.get("CONTROLLER_KILL_ROUNDS", "1"))
SEED = int(os.environ.get("CONTROLLER_KILL_SEED", str(random.randrange(2**31))))
LONGEST_LIFE_S = 12.0


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedSweep]:
    one = SimulatedSweep.create(tmp_path_factory.mktemp("killed"))
    yield one
    one.clean()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_kill_9_and_resume(
    simulated: SimulatedSweep, number: int, record_property: Callable[[str, object], None]
) -> None:
    moments = random.Random(f"{SEED}-{number}")
    folder = simulated.root / f"round-{number}"
    process = simulated.start(
        "sweep", "-i", str(simulated.inventory), "--dir", str(folder), "--steps", "3", "--blocks", "1", *SMALL_LOAD
    )
    finished_before: set[str] = set()
    kills = 0
    for _ in range(2):
        time.sleep(moments.uniform(0.0, LONGEST_LIFE_S))
        kills += process.poll() is None
        process.kill()
        process.communicate(timeout=30)
        if not (folder / "plan.json").exists():
            break
        finished_before |= finished(folder)
        process = simulated.start("sweep", "--resume", str(folder), "-i", str(simulated.inventory))
    record_property("kills", kills)  # how many met a living controller: --junitxml tells
    if not (folder / "plan.json").exists():
        return  # killed before anything was decided: nothing to resume, nothing launched
    _, err = process.communicate(timeout=240)
    what = f"seed {SEED}, round {number}: {err}"
    assert process.returncode == 0, what
    assert "Traceback" not in err, what
    counts = done_counts(folder)
    assert set(counts.values()) == {1}, what
    assert len(counts) == 2, what
    assert finished_before <= set(counts), what
    assert simulated.server_processes() == [], what
    assert max(simulated.gpu_memory_used()) < 1024, what
    assert ansible_processes(folder) == [], what
    status = simulated.run("status", "-i", str(simulated.inventory))
    assert "no sweep is running here" in status.stdout, what


def states(folder: Path) -> list[tuple[str, str]]:
    try:
        content = read_journal(folder / "journal.jsonl")
    except ControllerError:
        return []
    return [(record["cell"], record["state"]) for record in content.records if record["kind"] == "cell"]


def finished(folder: Path) -> set[str]:
    return {cell for cell, state in states(folder) if state == "done"}


def done_counts(folder: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for cell, state in states(folder):
        counts.setdefault(cell, 0)
        counts[cell] += state == "done"
    return counts


def ansible_processes(folder: Path) -> list[str]:
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "ansible-playbook" in line and f"{folder}/" in line]
