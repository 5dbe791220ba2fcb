"""Deployments on a simulated node through real Ansible: a winner, a canary that misses, Ctrl-C, and kill -9.

Two rounds of kill -9 by default; ``CONTROLLER_KILL_ROUNDS=100`` for more, ``CONTROLLER_KILL_SEED`` repeats a series.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from controller.apply.history import Deployment, fold
from controller.journal import read_journal
from tests.integration.simulated_evidence import WELL_DRAFTED, finished_sweep, node_that_pays
from tests.integration.simulated_sweep import SimulatedSweep, document
from tests.integration.users_program import SMALL_LOAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROUNDS = int(os.environ.get("CONTROLLER_KILL_ROUNDS", "2"))
SEED = int(os.environ.get("CONTROLLER_KILL_SEED", str(random.randrange(2**31))))
BEFORE_IT_BEGINS = 0.2
"""Share of the kills that may come before anything is begun; the others spread over the deployment."""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedSweep]:
    one = node_that_pays(tmp_path_factory.mktemp("apply"))
    yield one
    one.clean()


@pytest.fixture(scope="module")
def sweep(simulated: SimulatedSweep) -> Path:
    return finished_sweep(simulated)


def words(simulated: SimulatedSweep, sweep: Path, *more: str) -> tuple[str, ...]:
    return ("apply", str(sweep), "-i", str(simulated.inventory), "--yes", "--json", *more)


def written(simulated: SimulatedSweep) -> Path:
    return simulated.inventory / "host_vars" / "simulated" / "sglang_eagle3.yml"


def history(simulated: SimulatedSweep) -> dict[str, Any]:
    return document(simulated.run("history", "-i", str(simulated.inventory), "--json"))


def records(simulated: SimulatedSweep) -> list[dict[str, Any]]:
    found = list((simulated.root / "state").glob("*/deployments/*/history.jsonl"))
    return list(read_journal(found[0]).records) if found else []


def deployments(simulated: SimulatedSweep) -> list[Deployment]:
    return fold(records(simulated))


def wait_for_step(simulated: SimulatedSweep, step: str, after: int) -> None:
    deadline = time.monotonic() + 60
    while not any(one.get("step") == step for one in records(simulated)[after:]):
        assert time.monotonic() < deadline, f"no step {step}"
        time.sleep(0.05)


def wait_until_begun(simulated: SimulatedSweep, known: int) -> None:
    deadline = time.monotonic() + 60
    while len(deployments(simulated)) == known:
        assert time.monotonic() < deadline, "nothing was begun"
        time.sleep(0.02)


def serving_steps(simulated: SimulatedSweep) -> str | None:
    """Return the steps of the server that runs; None without speculation."""
    launch = json.loads((simulated.node.path / "state" / "launch.json").read_text())
    argv: list[str] = launch["argv"]
    assert launch["pid"] in simulated.server_processes()
    return argv[argv.index("--speculative-num-steps") + 1] if "--speculative-num-steps" in argv else None


def steps_in_inventory(simulated: SimulatedSweep) -> str | None:
    """Return what the host's variables say, in the same words; three steps is what the inventory says without them."""
    path = written(simulated)
    settings = yaml.safe_load(path.read_text()) if path.exists() else {}
    if settings.get("sglang_server_speculative") is False:
        return None
    return str(settings.get("sglang_server_speculative_num_steps", 3))


def test_a_winner_is_deployed_and_proven_and_nobody_else_touches_the_node_meanwhile(
    simulated: SimulatedSweep, sweep: Path
) -> None:
    assert simulated.server_processes() == []  # a sweep ends with a stopped server; apply starts it
    process = simulated.start(*words(simulated, sweep))
    wait_for_step(simulated, "written", 0)
    inventory = ("-i", str(simulated.inventory))
    other = simulated.run("sweep", *inventory, "--dir", str(simulated.root / "x"), *SMALL_LOAD, "--steps", "3")
    assert other.returncode == 4
    assert "another deployment holds" in other.stderr
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert (result["outcome"], result["launches"], result["verdict"]) == ("applied", 1, "PAYS, CONFIRMED")
    assert result["simulated"] is True
    (canary,) = result["canary"]
    assert canary["objections"] == []
    assert canary["outputs"]["with_baseline"] == 1.0
    assert serving_steps(simulated) == "3"
    assert result["sweep_id"] in written(simulated).read_text()
    assert "Traceback" not in err


def test_a_canary_on_a_slower_machine_misses_and_the_old_server_serves_again(
    simulated: SimulatedSweep, sweep: Path
) -> None:
    before = written(simulated).read_text() if written(simulated).exists() else None
    serving = steps_in_inventory(simulated)
    simulated.node.configure(speed={"token_ms": 30.0})
    try:
        done = simulated.run(*words(simulated, sweep, "--arm", "baseline"))
    finally:
        simulated.node.configure(speed={"token_ms": 12.0, **WELL_DRAFTED})
    assert done.returncode == 1, done.stderr
    result = document(done)
    assert (result["outcome"], result["launches"]) == ("rolled_back", 2)
    miss = result["canary"][0]["miss"]
    assert miss["larger_part"] == "cycle"
    assert miss["ln_cycle"] > 0.5
    assert "(-ln C), the larger part is the cycle time" in result["messages"][-1]
    assert serving_steps(simulated) == serving
    assert (written(simulated).read_text() if written(simulated).exists() else None) == before
    assert deployments(simulated)[-1].state == "rolled_back"


def test_ctrl_c_while_the_server_is_launched_brings_the_old_one_back(simulated: SimulatedSweep, sweep: Path) -> None:
    serving = steps_in_inventory(simulated)
    known = len(records(simulated))
    process = simulated.start(*words(simulated, sweep, "--arm", "baseline"))
    wait_for_step(simulated, "launching", known)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 5, err
    assert json.loads(out)["outcome"] == "rolled_back"
    assert steps_in_inventory(simulated) == serving_steps(simulated) == serving
    assert deployments(simulated)[-1].state == "rolled_back"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_kill_9_is_noticed_and_rollback_brings_the_old_server_back(
    simulated: SimulatedSweep, sweep: Path, number: int, record_property: Callable[[str, object], None]
) -> None:
    moments = random.Random(f"{SEED}-{number}")
    before = steps_in_inventory(simulated)
    known = len(deployments(simulated))
    other = "steps-3" if before is None else "baseline"
    took = [one.ended - one.at for one in deployments(simulated) if one.outcome == "applied" and one.ended]
    process = simulated.start(*words(simulated, sweep, "--arm", other, "--force"))
    if moments.random() < BEFORE_IT_BEGINS:
        time.sleep(moments.uniform(0.0, 2.0))
    else:
        wait_until_begun(simulated, known)
        time.sleep(moments.uniform(0.0, 1.1 * max(took, default=8.0)))
    record_property("killed", process.poll() is None)
    process.kill()
    process.communicate(timeout=60)
    what = f"seed {SEED}, round {number}"
    if len(deployments(simulated)) == known:
        assert steps_in_inventory(simulated) == before, what  # killed before anything was begun
        return
    newest = deployments(simulated)[-1]
    record_property("step", newest.step)
    if newest.state == "applied":
        assert steps_in_inventory(simulated) == serving_steps(simulated) != before, what
        return
    assert newest.state == "unfinished", what
    assert "python -m controller rollback" in history(simulated)["messages"][0], what
    done = simulated.run("rollback", "-i", str(simulated.inventory), "--json")
    assert done.returncode == 0, f"{what}: {done.stderr}"
    assert steps_in_inventory(simulated) == serving_steps(simulated) == before, what
    assert [one.state for one in deployments(simulated)[-2:]] == ["rolled_back", "applied"], what
