"""Without a root login: an ordinary one with sudo does all of it, and one with a single right cleans one container."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.sweep.results import read_sweep
from controller.sweep.state import CellState
from tests.integration.lab_fleet import LabFleet
from tests.lab.layout import ORDINARY_USER
from tests.lab.topology import INFERENCE_CONTAINER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.running import RunningLab

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.slow]

HELPER = "/usr/local/sbin/sglang-gpu-reap"
TENANT = 1290


@pytest.fixture
def machines(container: RunningLab, tmp_path: Path) -> LabFleet:
    return LabFleet(tmp_path, container)


def test_sudo_is_enough_for_everything(machines: LabFleet, tmp_path: Path) -> None:
    inventory = machines.write_inventory(
        everywhere={"ansible_user": ORDINARY_USER, "ansible_become": True},
        container129={"sglang_server_api_key": "of-no-use-elsewhere"},  # without one doctor warns
    )
    deployed = machines.play("deploy", inventory)
    assert deployed.returncode == 0, deployed.stdout
    pid = machines.main_pid(INFERENCE_CONTAINER)
    assert pid
    again = machines.play("deploy", inventory)
    assert again.returncode == 0, again.stdout
    assert "changed=0" in again.stdout
    assert machines.main_pid(INFERENCE_CONTAINER) == pid

    for command in (("status",), ("doctor",), ("diagnose", "--host"), ("watch", "--once")):
        looked = machines.controller(*command, "-i", str(inventory))
        assert looked.returncode == 0, looked.stdout + looked.stderr

    sweep = tmp_path / "sweep"
    small = ("--steps", "3", "--no-baseline", "--blocks", "1", "--output-tokens", "16", "--prompts-per-run", "2")
    swept = machines.controller("sweep", "-i", str(inventory), "--dir", str(sweep), *small, "--plain")
    assert swept.returncode == 0, swept.stderr
    plan, state = read_sweep(sweep)
    (cell,) = plan.cells
    assert state.cell(cell.cell_id).state is CellState.DONE
    assert "fired up and ready to roll" in (sweep / "cells" / cell.cell_id / "server.log").read_text()
    assert machines.main_pid(INFERENCE_CONTAINER) == 0
    assert max(machines.used_mib(INFERENCE_CONTAINER)) == 0


def test_a_user_of_the_host_with_one_right_frees_one_container_and_no_other(machines: LabFleet) -> None:
    lab = machines.lab
    as_root = machines.write_inventory()
    installed = machines.play("reap_helper", as_root)
    assert installed.returncode == 0, installed.stdout
    script = (
        "home=$(getent passwd sglang-reap | cut -d: -f6); install -d -o sglang-reap -m 700 $home/.ssh; "
        "install -o sglang-reap -m 600 /root/.ssh/authorized_keys $home/.ssh/authorized_keys"
    )
    assert lab.pve("sh", "-ec", script).returncode == 0
    lab.start_container(TENANT)
    for vmid in (INFERENCE_CONTAINER, TENANT):
        lab.container("sh", "-c", "hold-gpu --orphan --mib 20000 >/dev/null 2>&1 </dev/null &", vmid=vmid)
    lab.wait_until(lambda: min(machines.used_mib(INFERENCE_CONTAINER)) > 0, "both to hold memory")
    restricted = machines.write_inventory(
        "restricted",
        proxmox={"ansible_user": "sglang-reap"},
        container129={"zombie_cleanup_helper": HELPER, "zombie_cleanup_fail_on_foreign": False},
    )
    cleaned = machines.play("clean", restricted)
    assert cleaned.returncode == 0, cleaned.stdout
    assert "changed=1" in cleaned.stdout
    held = lab.container("pgrep", "--full", "sglang::", vmid=INFERENCE_CONTAINER)
    assert held.stdout == ""
    assert lab.container("pgrep", "--full", "sglang::", vmid=TENANT).stdout
