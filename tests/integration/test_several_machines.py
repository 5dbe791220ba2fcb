"""One model on two simulated machines, with real playbooks: made, left alone, lost and cleaned together."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.integration.simulated_group import NAMES, SimulatedGroup
from tests.integration.simulated_launch import gpu_memory_used
from tests.integration.simulated_node import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def make_group(tmp_path: object) -> Iterator[Callable[..., SimulatedGroup]]:
    groups: list[SimulatedGroup] = []

    def make(**settings: object) -> SimulatedGroup:
        groups.append(SimulatedGroup(tmp_path, **settings))  # type: ignore[arg-type]
        return groups[-1]

    yield make
    for group in groups:
        group.clean()


def first_failures(output: str) -> list[str]:
    """Return what each host says failed first."""
    return [line for line in output.splitlines() if "fatal:" in line and "failed first" in line]


@pytest.mark.slow
def test_two_machines_serve_end_and_are_cleaned_together(make_group: Callable[..., SimulatedGroup]) -> None:
    group = make_group()
    code, output = group.play("deploy.yml", sglang_server_speculative=False)
    assert code == 0, output
    launches = [group.launch(name) for name in NAMES]
    for rank, launch in enumerate(launches):
        assert f"--tp-size 4 --nnodes 2 --node-rank {rank} --dist-init-addr 127.0.0.1:" in " ".join(launch["argv"])
    names = group.processes()
    assert [f"sglang::scheduler_TP{rank}" in names for rank in range(4)] == [True] * 4
    assert names.count("sglang::detokenizer") == 1

    code, output = group.play("deploy.yml", "--skip-tags", "preflight", sglang_server_speculative=False)
    assert code == 0, output
    assert "changed=0" in output
    assert [group.launch(name)["launch_id"] for name in NAMES] == [launch["launch_id"] for launch in launches]

    # What one machine refuses ends nothing on the others.
    group.set("node1", sglang_server_api_key="short")
    for words in (["deploy.yml", "--skip-tags", "preflight"], ["playbooks/restart.yml"]):
        code, output = group.play(*words, sglang_server_speculative=False)
        assert code == 2, output
        assert "shorter than 8 characters" in output
        assert "No server is started or stopped, because of the machines of this model node1 failed" in " ".join(
            output.split()
        )
        assert [group.launch(name)["launch_id"] for name in NAMES] == [launch["launch_id"] for launch in launches]
        assert sorted(group.processes()) == sorted(names)
    group.set("node1", sglang_server_api_key="")
    code, output = group.play("playbooks/restart.yml", "--limit", "node1", sglang_server_speculative=False)
    assert code == 2, output
    assert "run it for all machines of the model at once" in " ".join(output.split())
    assert sorted(group.processes()) == sorted(names)

    # What differs on one machine makes the launch anew on all.
    group.set("node2", sglang_server_random_seed=7)
    code, output = group.play("deploy.yml", "--tags", "sglang_server", sglang_server_speculative=False)
    assert code == 0, output
    news = [group.launch(name)["launch_id"] for name in NAMES]
    assert not set(news) & {launch["launch_id"] for launch in launches}
    wait_until(lambda: "sglang::scheduler_TP3" in group.processes(), 20)

    # Whoever lost a rank ends by himself, on both machines, as the real ones do.
    os.kill(group.scheduler("node2", 3), signal.SIGKILL)
    wait_until(lambda: group.processes() == [], 10)
    code, output = group.play("playbooks/health.yml", sglang_server_speculative=False)
    assert code == 2
    assert len(first_failures(output)) == 2, output
    assert all("node2 (node rank 1) failed first" in line for line in first_failures(output))

    code, output = group.play("playbooks/clean.yml")
    assert code == 0, output
    assert [gpu_memory_used(group.nodes[name]) for name in NAMES] == [[0, 0], [0, 0]]


@pytest.mark.slow
def test_a_machine_that_never_comes_ends_the_wait_of_the_other(make_group: Callable[..., SimulatedGroup]) -> None:
    group = make_group(faults={"node2": {"crash_at": {"phase": "starting", "rank": 2}}})
    play = group.start("playbooks/restart.yml", sglang_server_speculative=False)
    begin = time.monotonic()
    output, _ = play.communicate(timeout=120)
    assert play.returncode == 2
    assert len(first_failures(output)) == 2, output
    assert all("node2 (node rank 1) failed first: SGLang died" in line for line in first_failures(output))
    assert "The launch was ended on node1, node2." in output
    assert group.processes() == []
    # Its own limit is 300 s; it is told within a slice.
    assert time.monotonic() - begin < 100
