"""Processes, signals, GPU memory and faults of the simulated server: real processes, real PIDs."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest

from controller.simulator import Node, create_node
from tests.integration.simulated_launch import READY, Launch, gpu_memory_used, wait_for

CRASHES = {
    "starting": "ImportError: libnvrtc.so.13",
    "distributed_init": "torch.distributed.DistBackendError: NCCL error",
    "weights": "safetensors_rust.SafetensorError: Error while deserializing header",
    "draft_weights": "AssertionError: Attempted to load weight",
    "memory_pool": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    "target_graphs": "Exception: Capture cuda graph failed: CUDA out of memory",
    "draft_graphs": "Exception: Capture cuda graph failed: CUDA out of memory",
    "warmup": "RuntimeError: CUDA error: an illegal memory access",
}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return create_node(tmp_path / "node", profile="fast", gpus=2)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)


def test_titles_session_and_memory(node: Node) -> None:
    assert gpu_memory_used(node) == [0, 0]
    with Launch(node) as launch:
        launch.ready()
        names = {process.pid: process.name for process in node.processes()}
        schedulers = launch.schedulers()
        assert [names[pid] for pid in schedulers] == ["sglang::scheduler_TP0", "sglang::scheduler_TP1"]
        assert "sglang::detokenizer" in names.values()
        for pid in names:
            assert os.getsid(pid) == os.getpgid(pid) == launch.process.pid
        assert Path(f"/proc/{schedulers[0]}/comm").read_text() == "sglang::schedul\n"
        used = gpu_memory_used(node)
        assert all(80_000 < mib < 97_887 for mib in used)
        smi = [
            str(node.path / "bin" / "nvidia-smi"),
            "--query-compute-apps=pid,process_name,used_memory",
            "--format=csv,noheader",
        ]
        rows = subprocess.run(smi, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()
        assert rows[0] == f"{schedulers[0]}, sglang::scheduler_TP0, {used[0]} MiB"
        assert re.search(
            r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d TP1\] Load weight begin\. avail mem=", launch.log, re.MULTILINE
        )
    assert gpu_memory_used(node) == [0, 0]


def test_the_port_is_refused_then_503_then_200(node: Node) -> None:
    node.configure(loading_scale=0.02)
    seen: list[object] = []
    with Launch(node) as launch:
        while 200 not in seen:
            assert launch.process.poll() is None, launch.log
            try:
                state: object = launch.client.get("/health").status_code
            except httpx.ConnectError:
                state = "refused"
            if not seen or seen[-1] != state:
                seen.append(state)
            time.sleep(0.01)
    assert seen == ["refused", 503, 200]


def test_one_step_has_no_draft_decode_graph(node: Node) -> None:
    with Launch(node, "--context-length", "8192", steps=1) as launch:
        log = launch.ready().log
    assert "Capture draft extend CUDA graph end." in log
    assert "Capture draft decode CUDA graph" not in log


@pytest.mark.parametrize("phase", CRASHES)
def test_a_crash_in_any_phase_ends_with_137_and_says_why(node: Node, phase: str) -> None:
    node.configure(faults={"crash_at": phase})
    with Launch(node, "--context-length", "8192", steps=3) as launch:
        assert launch.ended() == 137
        assert "TP0] Scheduler hit an exception: Traceback (most recent call last):" in launch.log
        assert CRASHES[phase] in launch.log
        assert READY not in launch.log
    assert gpu_memory_used(node) == [0, 0]


def test_a_crash_of_another_rank(node: Node) -> None:
    node.configure(faults={"crash_at": {"phase": "weights", "rank": 1}})
    with Launch(node) as launch:
        assert launch.ended() == 137
        assert "TP1] Scheduler hit an exception" in launch.log
        assert "Received sigquit from a child process. It usually means the child failed." in launch.log


@pytest.mark.parametrize("phase", ["weights", "target_graphs"])
def test_a_hanging_phase(node: Node, phase: str) -> None:
    node.configure(faults={"hang_at": phase})
    with Launch(node) as launch:
        wait_for(lambda: "Load weight begin" in launch.log, "the weights")
        time.sleep(0.5)
        assert launch.process.poll() is None
        assert ("Memory pool end" in launch.log) == (phase == "target_graphs")
        assert "Capture target decode CUDA graph end" not in launch.log


def test_hanging_while_serving_fails_the_health_check(node: Node) -> None:
    node.configure(faults={"hang_at": "serving"})
    with Launch(node) as launch:
        launch.ready()
        assert launch.client.get("/health").status_code == 503
        assert "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds." in launch.log
        # Unhealthy: it no longer waits for requests that will never end.
        launch.process.terminate()
        assert launch.ended() == 137
        assert "Force exiting." in launch.log


def test_children_die_with_a_killed_launcher(node: Node) -> None:
    with Launch(node) as launch:
        launch.ready()
        kill(launch.process.pid)
        wait_for(lambda: node.processes() == [], "all processes to be gone")
    assert gpu_memory_used(node) == [0, 0]


def test_orphans_outlive_the_launcher_and_ignore_sigterm(node: Node) -> None:
    node.configure(faults={"orphans": True})
    with Launch(node) as launch:
        launch.ready()
        orphans = launch.schedulers()
        kill(launch.process.pid)
        launch.process.wait(10)
        for pid in orphans:
            kill(pid, signal.SIGTERM)
        time.sleep(0.3)
        assert launch.schedulers() == orphans
        assert all(mib > 80_000 for mib in gpu_memory_used(node))
        # The next launch finds the GPUs full.
        with Launch(node) as second:
            assert second.ended() == 137
            assert "CUDA out of memory. Tried to allocate" in second.log
        for pid in orphans:
            kill(pid)
    assert gpu_memory_used(node) == [0, 0]


def test_one_occupied_gpu_is_unbalanced(node: Node) -> None:
    leak = node.path / "gpu" / "gpu1" / "someone.leak"
    leak.touch()
    os.truncate(leak, 60_000 << 20)
    with Launch(node) as launch:
        assert launch.ended() == 137
        assert "The memory capacity is unbalanced. Some GPUs may be occupied by other processes." in launch.log


@pytest.mark.parametrize(("victim", "status"), [("scheduler", 1), ("launcher", 137)])
def test_the_hosts_oom_killer(node: Node, victim: str, status: int) -> None:
    node.configure(faults={"host_oom": victim})
    with Launch(node) as launch:
        assert launch.ended() == status
        sentence = (
            "Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause"
        )
        assert (sentence in launch.log) == (victim == "scheduler")
        assert "Load weight end" not in launch.log


def test_a_low_memory_fraction(node: Node) -> None:
    with Launch(node, "--mem-fraction-static", "0.5") as launch:
        assert launch.ended() == 137
        assert "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static." in launch.log


def test_a_missing_model_path_fails_before_anything_starts(node: Node) -> None:
    with Launch(node, "--model-path", "/no/model") as launch:
        assert launch.ended() == 1
        assert "OSError: Incorrect path_or_model_id: '/no/model'." in launch.log


def test_an_unknown_flag_is_a_usage_error(node: Node) -> None:
    with Launch(node, "--no-such-flag") as launch:
        assert launch.ended() == 2
        assert "error: unrecognized arguments: --no-such-flag" in launch.log


def test_a_port_in_use(node: Node) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Launch(node, "--port", str(port)) as launch:
            assert launch.ended() == 1
            assert (
                f"ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', {port}): "
                "address already in use"
            ) in launch.log
    assert gpu_memory_used(node) == [0, 0]


def test_the_override_lets_a_short_draft_through(node: Node) -> None:
    with Launch(node, steps=2, SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN="1") as launch:
        assert "Overriding the draft model's max_position_embeddings to 262144." in launch.ready().log


def test_an_explicit_context_beyond_the_draft_fails_before_the_weights(node: Node) -> None:
    with Launch(node, "--context-length", "200000", steps=2) as launch:
        assert launch.ended() == 137
        assert "Target model's context_length (200000) is greater than" in launch.log
        assert "Load weight begin" not in launch.log


def test_sigterm_before_the_first_request_is_the_default_one(node: Node) -> None:
    with Launch(node, "--skip-server-warmup") as launch:
        launch.ready().process.terminate()
        assert launch.ended() == 128 + signal.SIGTERM
        assert "Draining" not in launch.log
        wait_for(lambda: node.processes() == [], "the schedulers to follow")


def test_sigterm_drains_running_requests(node: Node) -> None:
    answers = []
    with Launch(node) as launch:
        launch.ready()
        thread = threading.Thread(target=lambda: answers.append(launch.generate(tokens=2000)))
        thread.start()
        wait_for(lambda: launch.log.count("Prefill batch") >= 2, "the request to run")
        launch.process.terminate()
        wait_for(lambda: "Remaining number of requests 1." in launch.log, "the drain")
        with contextlib.suppress(httpx.HTTPError):
            assert launch.client.get("/health").status_code == 503
        thread.join(30)
        assert launch.ended() == 137  # it ends by killing its own tree
        assert "Remaining number of requests 0." in launch.log
    assert answers[0]["meta_info"]["completion_tokens"] == 2000


def test_a_killed_scheduler_takes_the_server_down_after_a_while(node: Node) -> None:
    node.configure(loading_scale=0.2)  # the 5 seconds of the real one become 1
    node.configure(phases=dict.fromkeys(node.settings["phases"], 0.0))
    with Launch(node) as launch:
        launch.ready()
        killed = time.monotonic()
        kill(launch.schedulers()[1])
        wait_for(lambda: "crashed with exit code -9" in launch.log, "the watchdog")
        assert launch.process.poll() is None  # the launcher outlives its scheduler
        assert launch.ended() == 137
        assert time.monotonic() - killed > 0.9
        assert re.search(
            r"Subprocess scheduler_1 \(pid=\d+\) crashed with exit code -9\. Triggering SIGQUIT", launch.log
        )
        assert "Sleeping 5 seconds before crash diagnostics to let GPU activity settle." in launch.log


def test_speed_faults(node: Node) -> None:
    quiet = {"launch_sd": 0.0, "run_sd": 0.0, "request_sd": 0.0}
    faults = {
        "lucky_launch": {"launch": 2, "factor": 0.5},
        "slow_first_requests": {"count": 1, "factor": 3.0},
        "dead_draft": True,
    }
    node.configure(speed=quiet, faults=faults)
    speeds = []
    for _ in range(2):
        with Launch(node, "--context-length", "8192", steps=3) as launch:
            launch.ready()
            metas = [launch.generate(tokens=100)["meta_info"] for _ in range(2)]
        assert [meta["spec_accept_histogram"] for meta in metas] == [[99], [99]]
        speeds.append([meta["decode_throughput"] for meta in metas])
    (slow, normal), (lucky_slow, lucky) = speeds
    assert normal / slow == pytest.approx(3.0, rel=0.02)
    assert lucky / normal == pytest.approx(2.0, rel=0.02)
    assert lucky / lucky_slow == pytest.approx(3.0, rel=0.02)


def test_drift_slows_request_after_request(node: Node) -> None:
    node.configure(speed={"launch_sd": 0.0, "run_sd": 0.0, "request_sd": 0.0}, faults={"drift": 0.1})
    with Launch(node) as launch:
        launch.ready()
        speeds = [launch.generate(tokens=50)["meta_info"]["decode_throughput"] for _ in range(4)]
    assert speeds[0] / speeds[3] == pytest.approx(1.3, rel=0.02)


def test_a_broken_and_a_hanging_driver(node: Node) -> None:
    program = [str(node.path / "bin" / "nvidia-smi"), "-L"]
    (node.path / "gpu" / "fail").touch()
    assert subprocess.run(program, capture_output=True, timeout=20, check=False).returncode == 9
    (node.path / "gpu" / "hang").touch()
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(program, capture_output=True, timeout=0.5, check=False)
