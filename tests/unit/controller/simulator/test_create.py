import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller.simulator import Node, NodeError, create_node
from controller.simulator.command import simulator


def test_a_node_is_made_in_less_than_a_second(tmp_path: Path) -> None:
    started = time.monotonic()
    node = create_node(tmp_path / "node", profile="fast", seed=3, gpus=2, time_scale=0.5, faults={"dead_draft": True})
    assert time.monotonic() - started < 1.0
    settings = json.loads((node.path / "node.json").read_text())
    assert (settings["time_scale"], settings["seed"], len(settings["gpus"])) == (0.5, 3, 2)
    assert settings["faults"] == {"dead_draft": True}
    assert {gpu["memory_total_mib"] for gpu in settings["gpus"]} == {97887}
    assert node.python.exists()
    assert node.processes() == []


def test_equal_seeds_make_equal_nodes(tmp_path: Path) -> None:
    first, second, other = (
        create_node(tmp_path / name, profile="fast", seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first.settings["gpus"] == second.settings["gpus"]
    assert first.settings["gpus"] != other.settings["gpus"]


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NodeError, match="is not empty"):
        create_node(tmp_path)


def test_unknown_profiles_and_faults_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Unknown profile 'slow'"):
        create_node(tmp_path / "node", profile="slow")
    with pytest.raises(ValueError, match="Unknown fault"):
        create_node(tmp_path / "node", faults={"explode": True})
    assert not (tmp_path / "node").exists()


def test_configure_checks_merges_and_is_read_back(tmp_path: Path) -> None:
    node = create_node(tmp_path / "node", profile="fast")
    node.configure(faults={"crash_at": "weights"}, speed={"token_ms": 9.0})
    again = Node.load(tmp_path / "node")
    assert again.settings["faults"] == {"crash_at": "weights"}
    assert again.settings["speed"]["token_ms"] == 9.0
    assert again.settings["speed"]["cycle_step_ms"] == 3.0
    with pytest.raises(ValueError, match="Unknown fault"):
        node.configure(faults={"explode": True})
    with pytest.raises(ValueError, match="has no setting 'colour'"):
        node.configure(colour="red")
    assert Node.load(tmp_path / "node").settings == again.settings


def test_loading_what_is_no_node(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"has no node\.json"):
        Node.load(tmp_path)
    (tmp_path / "node.json").write_text("{")
    with pytest.raises(NodeError, match="cannot be read"):
        Node.load(tmp_path)


def test_commands(tmp_path: Path) -> None:
    run, node = CliRunner(), str(tmp_path / "node")
    made = run.invoke(simulator, ["create", node, "--profile", "fast", "--seed", "5"])
    assert made.exit_code == 0, made.output
    assert run.invoke(simulator, ["create", node]).exit_code == 2
    nowhere = run.invoke(simulator, ["create", f"{node}/node.json/node"])
    assert nowhere.exit_code == 2
    assert "cannot create the simulated node" in nowhere.output
    changed = run.invoke(simulator, ["faults", node, "--set", "hang_at=weights", "--set", "drift=0.01"])
    assert 'hang_at = "weights"' in changed.output
    assert run.invoke(simulator, ["faults", node, "--set", "explode=1"]).exit_code == 2
    assert run.invoke(simulator, ["faults", node, "--set", "explode"]).exit_code == 2
    shown = json.loads(run.invoke(simulator, ["status", node, "--json"]).output)
    assert shown["faults"] == {"hang_at": "weights", "drift": 0.01}
    assert shown["processes"] == []
    assert "hang_at = off" in run.invoke(simulator, ["faults", node, "--clear"]).output
    assert "No process is running." in run.invoke(simulator, ["status", node]).output
    assert run.invoke(simulator, ["status", str(tmp_path / "none")]).exit_code == 2
