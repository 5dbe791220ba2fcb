"""What goes wrong, told by the health check: how fast, and in which words."""

from __future__ import annotations

import http.server
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import diagnose_file

from tests.integration.simulated_node import SimulatedNode, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., SimulatedNode]]:
    nodes: list[SimulatedNode] = []

    def make(**settings: object) -> SimulatedNode:
        nodes.append(SimulatedNode(tmp_path / f"node{len(nodes)}", **settings))  # type: ignore[arg-type]
        return nodes[-1]

    yield make
    for node in nodes:
        node.stop()


def fatal_line(output: str) -> str:
    return next(line for line in output.splitlines() if "fatal:" in line)


@pytest.mark.slow
def test_a_crash_is_told_with_phase_cause_and_remedy(make_node: Callable[..., SimulatedNode]) -> None:
    node = make_node(faults={"crash_at": "weights"})
    run = node.play("deploy.yml")
    assert run.returncode == 2
    line = fatal_line(run.stdout)
    assert "in phase weights" in line
    assert "remedy: " in line
    assert "log_tail" not in run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["scheduler", "launcher"])
def test_a_death_is_reported_within_two_seconds(make_node: Callable[..., SimulatedNode], victim: str) -> None:
    node = make_node(faults={"hang_at": "target_graphs"})
    play = node.open_play("deploy.yml", {"sglang_health_interval": 60})
    assert play.stdout is not None
    try:
        for line in play.stdout:
            if "RETRYING" in line:
                break
        # Let the present look begin, so that the death falls into it.
        time.sleep(2.0)
        pid = node.launch["pid"]
        if victim == "scheduler":
            pid = next(p for p in node.processes() if Path(f"/proc/{p}/comm").read_text().startswith("sglang::sched"))
        os.kill(pid, signal.SIGKILL)
        killed_at = time.monotonic()
        rest = []
        for line in play.stdout:
            rest.append(line)
            if "fatal:" in line:
                break
        seconds = time.monotonic() - killed_at
    finally:
        play.terminate()
        play.wait(timeout=20)
    assert rest, "the play ended without a failure"
    assert "fatal:" in rest[-1]
    # Ansible needs two more tasks' time to print what the module found.
    assert seconds < 2.0 + 2.0, f"{seconds:.2f} s"
    if victim == "launcher":
        assert "exit status -9" in rest[-1]


@pytest.mark.slow
def test_a_refused_flag_is_named(make_node: Callable[..., SimulatedNode]) -> None:
    node = make_node()
    run = node.play("playbooks/restart.yml", {"sglang_server_extra_flags": {"no-such-flag": True}})
    assert run.returncode == 2
    line = fatal_line(run.stdout)
    assert "no-such-flag" in line
    assert "class spec-args" in line or "died at once" in line


@pytest.mark.slow
def test_a_stall_names_the_phase(make_node: Callable[..., SimulatedNode]) -> None:
    node = make_node(faults={"hang_at": "memory_pool"})
    run = node.play("deploy.yml", {"sglang_health_interval": 4, "sglang_health_retries": 2})
    assert run.returncode == 2
    line = fatal_line(run.stdout)
    assert "was not ready within 8 s" in line
    assert "no cause in the log" in line
    assert "has not grown for" in line


@pytest.mark.slow
def test_a_phase_that_stands_still_is_told_with_evidence(make_node: Callable[..., SimulatedNode]) -> None:
    node = make_node(faults={"hang_at": "target_graphs"})
    begin = time.monotonic()
    # The server hangs before it says that it begins to capture: for its log, making the pool has not ended.
    limits = {"memory_pool": 3, "target_graphs": 3}
    run = node.play("deploy.yml", {"sglang_health_interval": 60, "sglang_health_phase_limits": limits})
    seconds = time.monotonic() - begin
    assert run.returncode == 2
    line = fatal_line(run.stdout)
    assert "has not advanced for" in line
    assert "(limit 3 s) in phase memory_pool" in line
    assert "schedulers in state" in line
    assert "GPUs 0 to 0 % busy" in line
    assert seconds < 45, f"{seconds:.1f} s"


@pytest.mark.slow
def test_a_warm_up_that_stands_still_is_told_though_health_checks_are_logged(
    make_node: Callable[..., SimulatedNode],
) -> None:
    node = make_node(faults={"hang_at": "warmup"})
    extra = {"sglang_health_interval": 1, "sglang_health_retries": 60, "sglang_health_phase_limits": {"warmup": 3}}
    run = node.play("deploy.yml", extra)
    assert run.returncode == 2
    line = fatal_line(run.stdout)
    assert "has not advanced for" in line
    assert "(limit 3 s) in phase warmup" in line
    for pid in node.processes():  # SIGTERM would be heard once the warm-up is over
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_the_log_of_the_newest_launch_is_fetched_and_diagnosed(
    make_node: Callable[..., SimulatedNode], tmp_path: Path
) -> None:
    node = make_node(faults={"crash_at": "weights"})
    node.play("deploy.yml")
    log = tmp_path / "fetched.log"
    run = node.play("playbooks/diagnose.yml", {"diagnose_log_dest": str(log)})
    assert run.returncode == 0, run.stdout
    with log.open("rb") as content:
        diagnosis = diagnose_file(content)
    assert diagnosis.is_problem
    assert diagnosis.phase == "weights"


@pytest.mark.slow
def test_what_cannot_work_is_refused_before_anything_starts(make_node: Callable[..., SimulatedNode]) -> None:
    node = make_node()
    play = "playbooks/restart.yml"
    missing = node.play(play, {"sglang_server_model_path": "/no/such/model"})
    assert "The model path /no/such/model does not exist" in fatal_line(missing.stdout)
    with http.server.HTTPServer(("127.0.0.1", node.port), http.server.SimpleHTTPRequestHandler) as foreign:
        threading.Thread(target=foreign.serve_forever, daemon=True).start()
        taken = node.play(play)
        foreign.shutdown()
    assert f"Port {node.port} is in use by process {os.getpid()}" in fatal_line(taken.stdout)
    assert not (node.directory / "state" / "launch.json").exists()


@pytest.mark.slow
def test_a_foreign_process_on_the_port_is_not_taken_for_the_server(make_node: Callable[..., SimulatedNode]) -> None:
    node = make_node(faults={"hang_at": "weights"})
    play = node.open_play("deploy.yml", {"sglang_health_interval": 60})
    wait_until((node.directory / "state" / "launch.json").exists, 60)
    with http.server.HTTPServer(("127.0.0.1", node.port), http.server.SimpleHTTPRequestHandler) as foreign:
        threading.Thread(target=foreign.serve_forever, daemon=True).start()
        output, _ = play.communicate(timeout=60)
        foreign.shutdown()
    line = fatal_line(output)
    assert "class port-in-use" in line
    assert str(os.getpid()) in line
