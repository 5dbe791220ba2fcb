"""deploy, restart and stop with real ansible-playbook runs on a simulated node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.integration.simulated_node import SimulatedNode, recap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    simulated = SimulatedNode(tmp_path / "node")
    yield simulated
    simulated.stop()
    assert simulated.processes() == []


@pytest.mark.slow
def test_from_the_clash_to_a_healthy_server_and_back(node: SimulatedNode) -> None:
    check = node.play("deploy.yml", None, "--check", "--diff")
    assert check.returncode == 0, check.stdout + check.stderr
    assert not (node.directory / "state" / "launch.json").exists()

    first = node.play("deploy.yml")
    assert first.returncode == 0, first.stdout + first.stderr
    launch = node.launch
    assert launch["pid"] == launch["session"]
    assert launch["log_file"].endswith("sglang_eagle3_nccl_3step.log")
    assert (node.directory / "state" / "launch.json").stat().st_mode & 0o777 == 0o600

    second = node.play("deploy.yml")
    assert recap(second.stdout)["changed"] == 0, second.stdout
    assert node.launch["launch_id"] == launch["launch_id"]

    refused = node.play("playbooks/restart.yml", {"sglang_server_speculative_num_steps": 99})
    assert "but must be a whole number from 1 to 32" in " ".join(refused.stdout.split())
    assert (refused.returncode, node.launch["launch_id"]) == (2, launch["launch_id"])
    assert node.processes() != []

    other = node.play("playbooks/restart.yml", {"sglang_server_speculative": False})
    assert other.returncode == 0, other.stdout
    assert "--speculative" not in " ".join(node.launch["argv"])
    assert node.launch["log_file"].endswith("sglang_baseline.log")

    destination = node.directory / "collected.log"
    variables = {"collect_log_src": node.launch["log_file"], "collect_log_dest": str(destination)}
    stopped = node.play("playbooks/stop.yml", variables)
    assert stopped.returncode == 0, stopped.stdout
    assert "fired up and ready to roll" in destination.read_text()
    assert node.processes() == []
    assert recap(node.play("playbooks/stop.yml").stdout)["changed"] == 0


@pytest.mark.slow
def test_the_api_key_is_in_no_command_line_and_no_output(node: SimulatedNode) -> None:
    key = "correct-horse-battery"
    variables = {"sglang_server_api_key": key}
    first = node.play("deploy.yml", variables, "--diff")
    assert key not in first.stdout + first.stderr
    private = node.directory / "state" / "server.yaml"
    assert private.stat().st_mode & 0o777 == 0o600
    assert key in private.read_text()
    assert node.launch["argv"][-2:] == ["--config", str(private)]
    assert key not in json.dumps(node.launch)
    assert first.returncode == 0, first.stdout
