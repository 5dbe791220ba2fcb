from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import launch_target
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_files import LaunchFiles
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_manager import ProcessManager
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.modules import sglang_health
from ansible_collections.sglang_ops.eagle3.plugins.modules.sglang_health import observe
from ansible_collections.sglang_ops.eagle3.plugins.modules.sglang_process import apply

from tests.unit.plugins.fake_server import free_port, parameters

if TYPE_CHECKING:
    from collections.abc import Iterator


class Launch:
    """A launch of the fake server, and how to look at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.manager = ProcessManager(LaunchFiles(str(folder / "state")))

    def start(self, mode: str) -> dict[str, Any]:
        with self.manager.files.lock(1.0):
            result = apply(parameters(self.folder, self.port, mode), self.manager, check_mode=False)
        record: dict[str, Any] = result["launch"]
        return record

    def options(self, **changes: Any) -> dict[str, Any]:
        options = {
            "manager": "process",
            "unit": "sglang.service",
            "state_dir": str(self.folder / "state"),
            "log_file": str(self.folder / "logs" / "server.log"),
            "host": "0.0.0.0",  # noqa: S104
            "port": self.port,
            "url": "http://there",
            "api_key": "",
            "speculative": True,
            "wanted": {"speculative_num_steps": 3},
            "effective_mismatch": "fail",
            "slice_s": 10.0,
            "budget_s": 60.0,
            "log_tail": 80,
            "phase_limits": {},
            "nvidia_smi": "",
            "systemctl": "systemctl",
            "node_rank": 0,
        }
        return {**options, **changes}

    def look(self, *, check_mode: bool = False, **changes: Any) -> tuple[dict[str, Any], list[str]]:
        return observe(self.options(**changes), ProcessTable(), check_mode=check_mode)

    def settle(self, **changes: Any) -> dict[str, Any]:
        """Look until nothing is left to wait for."""
        while True:
            result, _ = self.look(**changes)
            if result["ready"] or result["failure"]:
                return result


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    made = Launch(tmp_path)
    yield made
    apply({**parameters(tmp_path, made.port), "state": "stopped"}, made.manager, check_mode=False)


def test_ready(launch: Launch) -> None:
    record = launch.start("serves")
    result = launch.settle()
    assert result["ready"], result
    assert result["failure"] is None
    assert result["phase"] == "serving"
    assert result["url"] == "http://there"
    assert result["launch"]["launch_id"] == record["launch_id"]
    assert "environment" not in result["launch"]
    assert result["server"]["version"] == "0.5.15"
    assert [phase["name"] for phase in result["phases"]][-1] == "serving"
    assert launch.look(check_mode=True)[0]["ready"]


def test_a_machine_that_only_takes_part_is_ready_without_settings(launch: Launch) -> None:
    launch.start("takes-part")
    result = launch.settle(node_rank=1, wanted={"speculative_num_steps": 5})
    assert result["ready"], result
    assert (result["phase"], result["server"]) == ("serving", {})


def test_a_phase_change_ends_the_look(launch: Launch) -> None:
    launch.start("stalls")
    begin = time.monotonic()
    result, _ = launch.look()
    assert result["phase"] == "weights"
    assert not result["ready"]
    assert time.monotonic() - begin < 5
    again, _ = launch.look(slice_s=0.5)
    assert again["failure"] is None


def test_a_crash_is_explained(launch: Launch) -> None:
    launch.start("crash")
    result = launch.settle()
    failure = result["failure"]
    assert result["dead"]
    assert failure["class"] == "kv-oom"
    assert failure["phase"] == "memory_pool"
    assert failure["cause"].startswith("RuntimeError: Not enough memory")
    assert "sglang::schedul" in {survivor["name"] for survivor in failure["survivors"]}
    assert "remedy: raise sglang_server_mem_fraction_static" in result["msg"]
    time.sleep(2.0)
    afterwards = launch.settle()["failure"]
    assert (afterwards["exit_status"], afterwards["survivors"]) == (-9, [])


@pytest.mark.parametrize("victim", ["launcher", "scheduler"])
def test_a_death_is_seen_within_two_seconds(launch: Launch, victim: str) -> None:
    pid = launch.start("stalls")["pid"]
    launch.look()
    if victim == "scheduler":
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pid = int(children[0])
    killed: list[float] = []

    def kill() -> None:
        os.kill(pid, signal.SIGKILL)
        killed.append(time.monotonic())

    threading.Timer(1.0, kill).start()
    result, _ = launch.look(slice_s=20)
    seconds = time.monotonic() - killed[0]
    assert result["dead"]
    assert seconds < 2
    if victim == "launcher":
        assert result["failure"]["exit_status"] == -9
        assert [survivor["name"] for survivor in result["failure"]["survivors"]] == ["sglang::schedul"]
    else:
        assert "lost its scheduler process" in result["msg"]


def test_a_phase_that_stands_still_is_a_stall_with_evidence(launch: Launch) -> None:
    launch.start("stalls")
    result = launch.settle(phase_limits={"weights": 0.5})
    assert result["stalled"]
    assert not result["dead"]
    assert not result["timed_out"]
    assert "has not advanced for" in result["msg"]
    assert "(limit 0.5 s) in phase weights" in result["msg"]
    evidence = result["failure"]["evidence"]
    assert "sglang::schedul" in {process["name"] for process in evidence["processes"]}
    assert {process["state"] for process in evidence["processes"]} <= {"S", "R"}
    assert evidence["gpus"] == []


def test_a_server_that_gives_no_token_any_more_is_a_stall_with_evidence(launch: Launch) -> None:
    launch.start("mute")
    result = launch.settle(phase_limits={"serving": 1.0}, slice_s=1.0, budget_s=8)
    assert result["stalled"]
    assert not result["dead"]
    assert "gave no token for" in result["msg"]
    assert "in phase serving" in result["msg"]
    assert "sglang::schedul" in {process["name"] for process in result["failure"]["evidence"]["processes"]}


def test_refusals_that_each_come_sooner_than_the_limit_add_up(launch: Launch) -> None:
    # SGLANG_HEALTH_CHECK_TIMEOUT may be shorter than the limit.
    launch.start("mute")
    result = launch.settle(phase_limits={"serving": 3.0}, slice_s=1.0, budget_s=20)
    assert result["stalled"], result["msg"]
    assert result["elapsed_s"] < 12
    assert "(limit 3 s) in phase serving" in result["msg"]


def test_the_next_launch_is_estimated_from_the_last(launch: Launch) -> None:
    launch.start("serves")
    ready = launch.settle()
    assert ready["eta_s"] == 0.0
    history = json.loads((launch.folder / "state" / "phase_history.json").read_text())
    assert [key.split("|")[0] for key in history["launches"]] == ["0.5.15"]
    apply({**parameters(launch.folder, launch.port), "state": "stopped"}, launch.manager, check_mode=False)
    launch.start("stalls")
    result, _ = launch.look()
    assert result["eta_s"] is not None
    assert result["eta_s"] >= 0
    assert result["phase"] == "weights"
    assert result["eta_s"] >= result["phase_left_s"] >= 0


def test_a_phase_that_does_not_exist_is_refused(launch: Launch, capsys: pytest.CaptureFixture[str]) -> None:
    launch.start("stalls")
    with patch_module_args(launch.options(phase_limits={"graphs": 5})), pytest.raises(SystemExit):
        sglang_health.main()
    assert "phase_limits names 'graphs', which is no phase" in capsys.readouterr().out


def test_the_budget_ends_a_stall(launch: Launch) -> None:
    launch.start("stalls")
    result = launch.settle(budget_s=1.0)
    assert result["timed_out"]
    assert not result["dead"]
    assert "was not ready within 1 s and stood in phase weights" in result["msg"]
    assert "no cause in the log" in result["msg"]


def test_other_settings_than_asked_for(launch: Launch) -> None:
    launch.start("serves")
    wanted = {"speculative_num_steps": 5}
    result = launch.settle(wanted=wanted)
    assert not result["ready"]
    assert "speculative_num_steps is 3, not 5" in result["msg"]
    result, warnings = launch.look(wanted=wanted, effective_mismatch="warn")
    assert result["ready"]
    assert "speculative_num_steps is 3, not 5" in warnings[0]


def test_the_port_of_somebody_else(launch: Launch) -> None:
    launch.start("stalls")
    server = subprocess.Popen(
        ["python3", "-m", "http.server", str(launch.port), "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(1.0)
        result = launch.settle()
    finally:
        server.kill()
        server.wait()
    assert result["failure"]["class"] == "port-in-use"
    assert str(server.pid) in result["msg"]


def test_nothing_to_watch(launch: Launch) -> None:
    result, _ = launch.look()
    assert result["dead"]
    assert "start the server with deploy.yml" in result["msg"]
    planned, _ = launch.look(check_mode=True)
    assert planned["nothing_started"]
    assert planned["failure"] is None


SHOW = """LoadState=loaded
ActiveState=active
MainPID={pid}
InvocationID=abc
ExecMainStartTimestampMonotonic={start}
ControlGroup=
NRestarts=0
ExecMainCode={code}
ExecMainStatus={status}
"""


def systemctl(folder: Path, text: str, status: int = 0) -> str:
    program = folder / "systemctl"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {status}\n")
    program.chmod(0o755)
    return str(program)


def test_a_unit(launch: Launch) -> None:
    record = launch.start("serves")
    start = int(time.monotonic() * 1e6)
    program = systemctl(launch.folder, SHOW.format(pid=record["pid"], start=start, code=0, status=0))
    result = launch.settle(manager="systemd", systemctl=program)
    assert result["ready"], result
    assert result["launch"]["manager"] == "systemd"
    assert result["launch"]["launch_id"] == "abc"
    assert result["launch"]["pid"] == record["pid"]


@pytest.mark.parametrize(("code", "status", "expected"), [(2, 9, -9), (1, 2, 2)])
def test_a_unit_whose_process_is_gone(launch: Launch, code: int, status: int, expected: int) -> None:
    program = systemctl(launch.folder, SHOW.format(pid=0, start=1_000_000, code=code, status=status))
    result, _ = launch.look(manager="systemd", systemctl=program)
    assert result["dead"]
    assert result["failure"]["exit_status"] == expected


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [("LoadState=not-found\n", 0, "there is no unit"), ("LoadState=loaded\n", 0, "was not started"), ("", 1, "fails")],
)
def test_no_unit(launch: Launch, text: str, status: int, says: str) -> None:
    program = systemctl(launch.folder, text, status)
    with pytest.raises(launch_target.TargetError, match=says):
        launch_target.find_systemd_target("x.service", "/log", 1, ProcessTable(), program)
    with pytest.raises(launch_target.TargetError, match="cannot be asked"):
        launch_target.show_unit("x.service", "/no/systemctl")


def test_the_module_itself(launch: Launch, capsys: pytest.CaptureFixture[str]) -> None:
    launch.start("serves")
    assert launch.settle()["ready"]
    for wanted, ready in (({"speculative_num_steps": 3}, True), ({"speculative_num_steps": 4}, False)):
        with patch_module_args(launch.options(wanted=wanted)), pytest.raises(SystemExit):
            sglang_health.main()
        result = json.loads(capsys.readouterr().out)
        assert result["ready"] is ready
        assert bool(result.get("failed")) is not ready
