"""Schedulers that are really stopped: the health check tells the stall with GPUs, states and wait channels."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.simulated_node import SimulatedNode, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    # They hang as real ones do that wait for a peer; stopped, they cannot even answer a signal.
    made = SimulatedNode(tmp_path / "node", faults={"hang_at": "target_graphs"})
    yield made
    made.stop()


def schedulers(node: SimulatedNode) -> list[int]:
    def name(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8")
        except OSError:
            return ""

    return [pid for pid in node.processes() if name(pid).startswith("sglang::sched")]


@pytest.mark.slow
def test_stopped_schedulers_are_told_with_their_state(node: SimulatedNode) -> None:
    limits = {"starting": 8, "distributed_init": 8, "weights": 8, "draft_weights": 8, "memory_pool": 4}
    play = node.open_play("deploy.yml", {"sglang_health_interval": 60, "sglang_health_phase_limits": limits})
    wait_until((node.directory / "state" / "launch.json").exists, 60)
    wait_until(lambda: schedulers(node), 30)
    for pid in schedulers(node):
        os.kill(pid, signal.SIGSTOP)
    try:
        output, _ = play.communicate(timeout=90)
    finally:
        for pid in schedulers(node):
            os.kill(pid, signal.SIGCONT)
    line = next(line for line in output.splitlines() if "fatal:" in line)
    assert "has not advanced for" in line
    assert re.search(r"schedulers in state [^)]*\bT\b", line)
    assert "GPUs 0 to 0 % busy" in line
    assert "a signal (SIGSTOP) or a debugger holds " in line
    assert "kill -CONT" in line
