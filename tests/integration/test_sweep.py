"""Whole sweeps through real Ansible on a simulated node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.simulated_sweep import SimulatedSweep, document
from tests.integration.users_program import SMALL_LOAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatedSweep]:
    one = SimulatedSweep.create(tmp_path)
    yield one
    one.clean()


def test_a_sweep_measures_every_cell_and_stops_the_server(simulated: SimulatedSweep) -> None:
    done = simulated.sweep("--steps", "2,3", "--blocks", "1", "--json")
    assert done.returncode == 0, done.stderr
    result = document(done)
    assert result["simulated"] is True
    assert [cell["state"] for cell in result["cells"]] == ["done"] * 3
    assert result["analysis"] is not None
    assert simulated.server_processes() == []
    for cell in result["cells"]:
        folder = simulated.sweep_directory / "cells" / cell["cell"]
        assert "fired up" in (folder / "server.log").read_text()
        assert list((folder / "ansible").glob("*.log"))
        assert not list((folder / "ansible").glob(".*"))
    assert (simulated.sweep_directory / "journal.jsonl").stat().st_mode & 0o777 == 0o600

    shown = simulated.run("report", str(simulated.sweep_directory))
    assert shown.returncode == 0, shown.stderr
    assert "simulated" in shown.stdout
    again = document(simulated.run("report", str(simulated.sweep_directory), "--json"))
    assert again["analysis"] == result["analysis"]

    resumed = simulated.run(
        "sweep", "--resume", str(simulated.sweep_directory), "-i", str(simulated.inventory), "--json"
    )
    assert resumed.returncode == 0, resumed.stderr
    assert "3 finished cells are reused" in resumed.stderr
    assert [states.count("done") for states in simulated.states().values()] == [1] * 3


def test_each_arm_runs_what_it_is_called_and_one_that_dies_is_classified(simulated: SimulatedSweep) -> None:
    arms = ("--arm", "tree=steps:2,NCCL_ALGO:Tree", "--arm", "bad=steps:2,--no-such-flag:1")
    done = simulated.sweep("--steps", "3", "--blocks", "1", *arms, "--json")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    cells = {cell["arm"]: cell for cell in document(done)["cells"]}
    assert {arm: cell["state"] for arm, cell in cells.items()} == {
        "baseline": "done", "steps-3": "done", "tree": "done", "bad": "failed",
    }  # fmt: skip
    assert cells["bad"]["failure"]["class"]
    assert cells["bad"]["failure"]["sentence"]
    assert simulated.server_processes() == []
    launched = {record["arm"]: record["launch"]["argv"] for record in simulated.records() if record["kind"] == "server"}
    assert not [word for word in launched["baseline"] if word.startswith("--speculative")]
    for arm, steps in (("steps-3", "3"), ("tree", "2")):
        assert launched[arm][launched[arm].index("--speculative-num-steps") + 1] == steps
    for argv in launched.values():
        assert argv[argv.index("--max-running-requests") + 1] == "16"


def test_status_and_stop_of_a_server_left_running(simulated: SimulatedSweep) -> None:
    done = simulated.sweep("--steps", "3", "--blocks", "1", "--no-baseline", "--leave-running", "--json")
    assert done.returncode == 0, done.stderr
    assert simulated.server_processes()
    inventory = ("-i", str(simulated.inventory))
    status = document(simulated.run("status", *inventory, "--json"))
    assert status["server"]["ready"] is True
    assert status["sweeps"] == []
    assert "serving" in simulated.run("status", *inventory).stdout
    assert "of sweep" in simulated.run("status", *inventory).stdout
    stopped = simulated.run("stop", *inventory)
    assert stopped.returncode == 0, stopped.stderr
    assert simulated.server_processes() == []
    assert "no server is ready" in simulated.run("status", *inventory).stdout
    assert simulated.run("clean", *inventory).returncode == 0


def test_a_model_path_that_does_not_exist_is_one_sentence(simulated: SimulatedSweep) -> None:
    (simulated.inventory / "zzz_model.yml").write_text(
        "inference:\n  hosts:\n    simulated:\n      sglang_server_model_path: /no/such/model\n"
    )
    done = simulated.sweep("--steps", "3", "--blocks", "1", "--no-baseline")
    assert done.returncode in (1, 3)
    assert "/no/such/model" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unreachable_host_is_exit_code_3(simulated: SimulatedSweep) -> None:
    (simulated.inventory / "zzz_gone.yml").write_text(
        "inference:\n  hosts:\n    simulated: &gone\n"
        "      {ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}\n"
        "proxmox:\n  hosts:\n    simulated_proxmox: *gone\n"
    )
    done = simulated.sweep("--steps", "3", "--blocks", "1")
    assert done.returncode == 3
    assert "cannot be reached" in done.stderr
    assert "--resume" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dry_run_leaves_nothing_and_a_directory_with_a_journal_is_not_taken_over(simulated: SimulatedSweep) -> None:
    first = simulated.sweep("--steps", "3", "--blocks", "1", "--dry-run", "--json")
    assert first.returncode == 0, first.stderr
    simulated.sweep_directory.mkdir()
    (simulated.sweep_directory / "journal.jsonl").write_text("")
    done = simulated.run(
        "sweep", "-i", str(simulated.inventory), "--dir", str(simulated.sweep_directory), *SMALL_LOAD, "--steps", "3"
    )
    assert done.returncode == 2
    assert "holds a sweep already" in done.stderr
