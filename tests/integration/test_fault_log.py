"""The log of a server is deleted, truncated or rotated, while the server loads and while it serves."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import launch_watch
from ansible_collections.sglang_ops.eagle3.plugins.modules import fetch_log, sglang_health

from tests.integration.faults import THOROUGH
from tests.integration.watched_launch import WatchedLaunch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def delete(log: Path) -> None:
    log.unlink()


def truncate(log: Path) -> None:
    os.truncate(log, 0)


def rotate(log: Path) -> None:
    log.rename(log.with_name(f"{log.name}.1"))


def rotate_and_create(log: Path) -> None:
    rotate(log)
    log.touch()


DAMAGES = (delete, truncate, rotate, rotate_and_create)


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedLaunch]:
    monkeypatch.setattr(launch_watch, "QUIET_LOG_S", 0.5)  # seconds that a test need not wait
    monkeypatch.setattr(sglang_health, "LOG_APPEARS_S", 0.0)
    one = WatchedLaunch(tmp_path)
    yield one
    one.stop()


def settled(launch: WatchedLaunch) -> dict[str, Any]:
    """Look, as the role does, until nothing is left to wait for."""
    while True:
        result, _ = launch.look()
        if result["ready"] or result["failure"]:
            return result


@pytest.mark.parametrize("damage", DAMAGES)
def test_while_it_loads_the_living_and_the_dead_are_still_told_apart(
    launch: WatchedLaunch, damage: Callable[[Path], None]
) -> None:
    pid = launch.start("stalls")["pid"]
    assert launch.look()[0]["phase"] == "weights"
    damage(launch.log)
    alive, warnings = launch.look(slice_s=1.0)
    assert alive["failure"] is None
    assert bool(warnings) is not launch.log.exists()
    assert all(f"the log {launch.log} is gone" in warning for warning in warnings)
    os.kill(pid, signal.SIGKILL)
    dead = settled(launch)
    assert dead["dead"]
    assert dead["failure"]["exit_status"] in (-9, None)


@pytest.mark.parametrize("damage", DAMAGES if THOROUGH else (delete, truncate))
def test_a_server_that_comes_up_behind_a_lost_log_is_found_ready(
    launch: WatchedLaunch, damage: Callable[[Path], None]
) -> None:
    launch.start("late")
    assert launch.look()[0]["phase"] == "weights"
    damage(launch.log)
    result = settled(launch)
    assert result["ready"], result


@pytest.mark.parametrize("damage", DAMAGES)
def test_while_it_serves_the_living_and_the_dead_are_still_told_apart(
    launch: WatchedLaunch, damage: Callable[[Path], None]
) -> None:
    pid = launch.start("serves")["pid"]
    assert settled(launch)["ready"]
    damage(launch.log)
    assert settled(launch)["ready"]
    os.kill(pid, signal.SIGKILL)
    assert settled(launch)["dead"]


def test_collecting_a_log_that_is_gone_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _, warning: said.append(warning))
    gone = tmp_path / "server.log"
    with patch_module_args({"src": str(gone), "dest": str(tmp_path / "kept.log")}), pytest.raises(SystemExit) as ended:
        fetch_log.main()
    assert ended.value.code == 0
    assert said == [f"There is no log {gone} any more: nothing was collected."]
