"""What the machines of one launch are told of each other while they wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible import constants
from ansible.plugins.action import ActionBase
from ansible_collections.sglang_ops.eagle3.plugins.action.sglang_health import ActionModule, Words

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(ActionBase, "run", lambda *_: {})
    return tmp_path


def look(host: str, answer: dict[str, Any], asked: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """Run the action on a host whose module would give this answer."""
    action: Any = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"slice_s": 15, **arguments}, _uuid="the task")

    def execute(module_args: dict[str, Any], **_: Any) -> dict[str, Any]:
        if asked is not None:
            asked.update(module_args)
        return dict(answer)

    action._execute_module = execute
    result: dict[str, Any] = action.run(None, {"inventory_hostname": host})
    return result


WAITS = {"ready": False, "failure": None}


def test_one_machine_is_looked_at_as_the_role_says(folder: Path) -> None:
    asked: dict[str, Any] = {}
    assert look("a", {"ready": False, "failure": {"class": "kv-oom"}}, asked) == {
        "ready": False,
        "failure": {"class": "kv-oom"},
    }
    assert asked["slice_s"] == 15
    assert list(folder.iterdir()) == []


def test_a_failure_is_told_to_those_who_wait() -> None:
    asked: dict[str, Any] = {}
    assert look("a", WAITS, asked, nnodes=2)["peer_failed"] == ""
    assert asked["slice_s"] == 3
    assert "peer_failed" not in look("b", {"ready": False, "failure": {"class": "kv-oom"}}, nnodes=2)
    assert look("a", WAITS, asked, nnodes="2")["peer_failed"] == "b"
    assert asked["slice_s"] == 0.5
    assert "peer_failed" not in look("a", {"ready": True, "failure": None}, nnodes=2)


def test_words_of_another_task_do_not_count(tmp_path: Path) -> None:
    Words(tmp_path, "one").leave("b")
    assert Words(tmp_path, "two").of_another("a") == ""
    assert Words(tmp_path, "one").of_another("b") == ""
