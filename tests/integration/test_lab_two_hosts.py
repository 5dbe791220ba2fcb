"""Three containers with systemd on two Proxmox hosts, over SSH: a fleet, a winner, and one model on two of them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
import yaml

from controller.sweep.results import read_sweep
from controller.sweep.state import CellState
from tests.integration.journal_records import wait_for_record
from tests.integration.lab_fleet import REAL_TIME, LabFleet
from tests.integration.simulated_evidence import WELL_DRAFTED
from tests.lab.holding import held_lab
from tests.lab.topology import TWO_HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(600)]

HERE, BESIDE, NEIGHBOUR = (one.vmid for one in TWO_HOSTS.containers)
SMALL = ("--output-tokens", "32", "--prompts-per-run", "4")
SETTLED = 500
"""MiB of a GPU that may be in use when nobody has it."""


@pytest.fixture(scope="module")
def fleet(lab_can_run: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabFleet]:  # noqa: ARG001
    with held_lab(f"two-{os.getpid()}", TWO_HOSTS) as lab:
        one = LabFleet(tmp_path_factory.mktemp("fleet"), lab)
        one.write_inventory()
        one.configure(HERE, BESIDE, NEIGHBOUR, **REAL_TIME, speed=WELL_DRAFTED)
        yield one


@pytest.fixture(scope="module")
def sweep(fleet: LabFleet) -> Path:
    """A sweep over all three; one is switched off in the middle of its block."""
    directory = fleet.root / "sweep"
    inventory = ("-i", str(fleet.inventory), "--hosts", "inference", "--dir", str(directory))
    wanted = ("--steps", "3", "--blocks", "3", "--confirm-blocks", "1")
    process = fleet.start("controller", "sweep", *inventory, *wanted, *SMALL, "--plain")
    try:
        first = wait_for_record(process, directory, "cell", state="done", host=f"container{NEIGHBOUR}")
        plan, _ = read_sweep(directory)
        second = next(cell for cell in plan.cells if cell.block == first["block"] and cell.cell_id != first["cell"])
        wait_for_record(process, directory, "cell", state="launching", cell=second.cell_id)
        assert fleet.lab.pve_of(NEIGHBOUR, "pct", "stop", str(NEIGHBOUR)).returncode == 0
        _, err = process.communicate(timeout=400)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert f"container{NEIGHBOUR} was lost" in err
    return directory


def test_a_container_that_is_switched_off_loses_nothing_of_the_sweep(fleet: LabFleet, sweep: Path) -> None:
    plan, state = read_sweep(sweep)
    assert {state.cell(cell.cell_id).state for cell in plan.cells} == {CellState.DONE}
    assert {state.cell(cell.cell_id).times_done for cell in plan.cells} == {1}
    assert [one.host for one in state.superseded] == [f"container{NEIGHBOUR}"]
    assert sorted(state.measured_hosts) == [f"container{HERE}", f"container{BESIDE}"]
    for vmid in (HERE, BESIDE):
        assert fleet.main_pid(vmid) == 0
        assert max(fleet.used_mib(vmid)) < SETTLED


def test_the_winner_is_applied_to_a_unit_and_taken_back_from_one_that_is_slower(fleet: LabFleet, sweep: Path) -> None:
    apply = ("apply", str(sweep), "-i", str(fleet.inventory), "--limit", f"container{BESIDE}", "--yes", "--json")
    applied = fleet.controller(*apply)
    assert applied.returncode == 0, applied.stderr
    result = json.loads(applied.stdout)
    assert (result["outcome"], result["launches"], result["verdict"]) == ("applied", 1, "PAYS, CONFIRMED")
    written = fleet.inventory / "host_vars" / f"container{BESIDE}" / "sglang_eagle3.yml"
    settings = written.read_text()
    assert yaml.safe_load(settings)["sglang_server_speculative_num_steps"] == 3
    argv = fleet.lab.container("cat", f"/proc/{fleet.main_pid(BESIDE)}/cmdline", vmid=BESIDE).stdout.split("\0")
    assert argv[argv.index("--speculative-num-steps") + 1] == "3"
    fleet.configure(BESIDE, speed={"token_ms": 30.0})
    try:
        missed = fleet.controller(*apply, "--arm", "baseline")
    finally:
        fleet.configure(BESIDE, speed={"token_ms": 12.0})
    assert missed.returncode == 1, missed.stderr
    result = json.loads(missed.stdout)
    assert (result["outcome"], result["launches"]) == ("rolled_back", 2)
    assert written.read_text() == settings
    argv = fleet.lab.container("cat", f"/proc/{fleet.main_pid(BESIDE)}/cmdline", vmid=BESIDE).stdout.split("\0")
    assert argv[argv.index("--speculative-num-steps") + 1] == "3"
    assert fleet.controller("stop", "-i", str(fleet.inventory), "--limit", f"container{BESIDE}").returncode == 0


def test_one_model_on_two_hosts_beside_a_neighbour(fleet: LabFleet) -> None:
    if not fleet.lab.container_booted(NEIGHBOUR):
        fleet.lab.start_container(NEIGHBOUR)
    alone = fleet.write_inventory("neighbour", **{f"container{vmid}": None for vmid in (HERE, BESIDE)})
    deployed = fleet.play("deploy", alone)
    assert deployed.returncode == 0, deployed.stdout
    neighbour = fleet.main_pid(NEIGHBOUR)
    assert neighbour

    together = {"sglang_server_nnodes": 2, "sglang_server_tp_size": 8, "sglang_server_speculative": False}
    group = fleet.write_inventory(
        "group",
        **{f"container{HERE}": together, f"container{BESIDE}": together, f"container{NEIGHBOUR}": None},
    )
    deployed = fleet.play("deploy", group)
    assert deployed.returncode == 0, deployed.stdout
    pids = [fleet.main_pid(vmid) for vmid in (HERE, BESIDE)]
    for rank, vmid in enumerate((HERE, BESIDE)):
        command = fleet.lab.container("ps", "-o", "args=", "-p", str(pids[rank]), vmid=vmid).stdout
        assert f"--tp-size 8 --nnodes 2 --node-rank {rank}" in command
    again = fleet.play("deploy", group)
    assert again.returncode == 0, again.stdout
    assert "changed=0" in again.stdout
    assert [fleet.main_pid(vmid) for vmid in (HERE, BESIDE)] == pids

    # A rank on the second host dies: both units end, and it is known who was first.
    fleet.lab.container("pkill", "--signal", "KILL", "--full", "sglang::scheduler_TP6", vmid=BESIDE)
    fleet.lab.wait_until(lambda: not set(pids) & {fleet.main_pid(vmid) for vmid in (HERE, BESIDE)}, "both units to end")
    looked = fleet.play("health", group)
    assert looked.returncode == 2
    assert f"container{BESIDE} (node rank 1) failed first" in looked.stdout

    cleaned = fleet.play("clean", group)
    assert cleaned.returncode == 0, cleaned.stdout
    for vmid in (HERE, BESIDE):
        assert max(fleet.used_mib(vmid)) < SETTLED
    assert fleet.main_pid(NEIGHBOUR) == neighbour
    assert min(fleet.used_mib(NEIGHBOUR)) > 70_000
