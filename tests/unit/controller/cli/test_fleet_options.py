"""``sweep --hosts``: what is refused before anything is touched, and what is shown."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from controller.cli import main
from controller.cli.fleet import FleetRequest, fleet_hosts, fleet_targets
from controller.cli.fleet_progress import FleetLines
from controller.exits import Exit, InputError
from controller.fleet.prepare import fleet_plan
from controller.inventory import Target, read_fleet
from controller.sweep.noise import Noise, keep
from tests.unit.controller.sweep.fakes import plan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "inference:\n  hosts:\n    gpu1: {ansible_host: 192.0.2.1}\n    gpu2: {ansible_host: 192.0.2.2}\n"
        "    gpu3: {ansible_host: 192.0.2.2}\nlab:\n  hosts:\n    gpu2:\n    gpu1:\nproxmox:\n  hosts:\n    pve1:\n"
    )
    return path


def test_a_group_or_names_choose_the_hosts_in_the_order_of_the_inventory(inventory: Path) -> None:
    assert [target.host for target in read_fleet(inventory, "lab")] == ["gpu1", "gpu2"]
    assert [target.host for target in read_fleet(inventory, "gpu3, gpu1")] == ["gpu1", "gpu3"]
    assert read_fleet(inventory, "lab")[0].proxmox == ("pve1",)


@pytest.mark.parametrize(("pattern", "named"), [("proxmox", "pve1"), ("gpu1,nowhere", "nowhere"), ("", "")])
def test_hosts_that_do_not_serve_are_refused(inventory: Path, pattern: str, named: str) -> None:
    with pytest.raises(InputError, match=f"{named} is not in the group 'inference'"):
        read_fleet(inventory, pattern)


def test_an_inventory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no inventory at"):
        fleet_targets(FleetRequest("lab", tmp_path / "none", None, None))


def test_one_machine_under_two_names_is_refused(inventory: Path) -> None:
    with pytest.raises(InputError, match="gpu2 and gpu3 are the same machine"):
        fleet_plan(plan(), read_fleet(inventory, "inference"))


def test_simulated_and_real_hosts_are_not_mixed(inventory: Path) -> None:
    real = read_fleet(inventory, "gpu1")[0]
    with pytest.raises(InputError, match="simulated and real"):
        fleet_plan(plan(), [real, Target(inventory, "s", {"simulator_node": "/n"})])


def test_the_plan_names_its_hosts(inventory: Path) -> None:
    decided = fleet_plan(plan(), read_fleet(inventory, "lab"))
    assert decided.hosts == ("gpu1", "gpu2")
    assert decided.limit == "gpu1,gpu2"
    assert type(decided).from_json(json.loads(json.dumps(decided.as_json()))) == decided


def test_a_resumed_sweep_knows_its_hosts(tmp_path: Path) -> None:
    replace(plan(), hosts=("a", "b")).write(tmp_path / "plan.json")
    assert fleet_hosts(None, tmp_path, None) == "a,b"
    assert fleet_hosts("a", tmp_path, None) == "a"
    assert fleet_hosts(None, None, None) is None


def test_hosts_and_limit_do_not_go_together(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "--steps", "2", "-i", str(inventory), "--hosts", "lab", "--limit", "gpu1"]
    assert main(words) == Exit.USAGE
    assert "--hosts says where to measure, and so does --limit" in capsys.readouterr().err


def test_a_noise_floor_belongs_to_one_host(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--aa", "-i", str(inventory), "--hosts", "lab"]) == Exit.USAGE
    assert "--aa measures the noise floor of one host" in capsys.readouterr().err


def test_the_plan_of_a_fleet_is_printed_for_its_first_host(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--steps", "2", "-i", str(inventory), "--hosts", "lab", "--dry-run"]) == Exit.OK
    assert "-l gpu1" in capsys.readouterr().out


def test_progress_names_the_host(tmp_path: Path) -> None:
    del tmp_path
    out = io.StringIO()
    lines = FleetLines(Console(file=out, width=200))
    decided = replace(plan(1), hosts=("gpu1", "longer-name"))
    lines.sweep_started(decided, decided.cells, 2)
    host = lines.on("gpu1")
    host.cell_started(decided.cells[0], 1, 3, 2)
    host.phase("weights")
    host.cell_ended(decided.cells[0], "done", "", 12.0)
    host.cell_ended(decided.cells[1], "failed", "GPU 3 is full.", 3.0)
    host.note("it is warm")
    lines.note("block 1 begins anew")
    lines.more_to_do(2)
    host.cell_ended(decided.cells[2], "done", "", 4.0)
    text = out.getvalue()
    assert "on 2 hosts: gpu1, longer-name (every figure is a simulated one)" in text
    assert "2 finished cells are reused" in text
    assert "gpu1         launching block 1, " in text
    assert "attempt 2" in text
    assert "12.0 s, 2 left" in text
    assert "3.0 s, 1 left: GPU 3 is full." in text
    assert "4.0 s, 2 left" in text
    assert "gpu1         note it is warm" in text
    assert "note      block 1 begins anew" in text


def test_the_largest_noise_floor_of_the_hosts_counts(
    inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    hosts = read_fleet(inventory, "lab")
    for host, noise in zip(hosts, (0.01, 0.03), strict=True):
        keep(host, Noise(noise, 5, (1,), "S0", "2026-01-01T00:00:00+00:00", host.title))
    decided = fleet_plan(plan(), hosts)
    assert decided.aa_noise == 0.03
    assert decided.aa_source.startswith("gpu2 (192.0.2.2): A/A sweep S0")
    assert fleet_plan(plan(aa_noise=0.02, aa_source="--aa-noise"), hosts).aa_noise == 0.02
