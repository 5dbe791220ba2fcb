"""The site package as a whole, and how it finds its node."""

import ast
import json
import sys
from pathlib import Path

import pytest

from controller.simulator import create_node
from controller.simulator.create import BIN, SITE
from controller.simulator.site.sglang import node as node_module
from controller.simulator.site.sglang.node import Node, NodeNotFoundError, find_node_file

FILES = sorted([*SITE.rglob("*.py"), *BIN.glob("*.py")])
NOT_STANDARD = {"controller", "click", "httpx", "pydantic", "yaml", "psutil", "setproctitle"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_python_39_and_the_standard_library_only(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    imported = set()
    for item in ast.walk(tree):
        if isinstance(item, ast.Import):
            imported |= {name.name.partition(".")[0] for name in item.names}
        elif isinstance(item, ast.ImportFrom) and item.level == 0:
            imported.add((item.module or "").partition(".")[0])
    assert imported <= set(sys.stdlib_module_names)
    assert not imported & NOT_STANDARD


def test_launches_are_counted_and_draws_repeat(tmp_path: Path) -> None:
    path = create_node(tmp_path / "node", profile="fast", seed=4).path / "node.json"
    node = Node.load(path)
    assert [node.next_launch(), node.next_launch()] == [1, 2]
    assert Node.load(path).next_launch() == 3
    assert node.random("launch", 1).random() == Node.load(path).random("launch", 1).random()
    assert node.random("launch", 1).random() != node.random("launch", 2).random()


def test_loading_times_are_scaled_with_a_floor(tmp_path: Path) -> None:
    node = Node.load(create_node(tmp_path / "node", profile="fast", loading_scale=0.1).path / "node.json")
    assert node.loading(5.0) == pytest.approx(0.5)
    assert node.loading(5.0, at_least=2.0) == 2.0


def test_the_node_is_beside_the_environment_else_system_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "ml-env"))
    monkeypatch.setattr(node_module, "SYSTEM_WIDE", tmp_path / "etc" / "node.json")
    with pytest.raises(NodeNotFoundError, match="Create one with"):
        find_node_file()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "node.json").write_text(json.dumps({}))
    assert find_node_file() == tmp_path / "etc" / "node.json"
    (tmp_path / "node.json").write_text(json.dumps({}))
    assert find_node_file() == tmp_path / "node.json"
