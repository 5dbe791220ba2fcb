from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import health_report, stall_evidence
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.stall_evidence import (
    collect,
    parse_gpus,
    spinning,
    summary,
)

from tests.unit.plugins.programs import program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts

SPINNING = "0, 100, 92.50, 600.00, 71000\n1, 99, 88.10, 600.00, 71000\n"


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[ProcessFacts]:
    """A process with the name of a scheduler, whose interpreter lies in a directory of its own."""
    named = tmp_path / "bin" / "sglang::scheduler_TP0"
    named.parent.mkdir()
    named.symlink_to("/bin/sleep")
    process = subprocess.Popen([named, "60"])
    table = ProcessTable()
    command_line = Path(f"/proc/{process.pid}/cmdline")
    while True:
        facts = table.read(process.pid)
        # The kernel sets the name first and the command line, by which py-spy is found, a moment later.
        if facts is not None and facts.name.startswith("sglang::schedul") and command_line.read_bytes():
            break
        time.sleep(0.01)
    yield facts
    process.kill()
    process.wait()


def test_gpus_of_a_driver_that_says_everything() -> None:
    gpus = parse_gpus(SPINNING + "garbage\n2, [N/A], [N/A], [N/A], 5\n")
    assert [gpu["index"] for gpu in gpus] == [0.0, 1.0, 2.0]
    assert gpus[2]["power_w"] is None
    assert spinning(gpus[:2])
    assert not spinning(gpus)
    assert not spinning([])
    assert not spinning(parse_gpus("0, 100, 550.0, 600.0, 1"))


def test_evidence_of_a_process(scheduler: ProcessFacts, tmp_path: Path) -> None:
    smi = program(tmp_path / "smi", f"printf '{SPINNING}'")
    program(tmp_path / "bin" / "py-spy", "echo Thread $4")
    evidence = collect([scheduler], ProcessTable(), smi)
    process = evidence["processes"][0]
    assert (process["pid"], process["state"], process["threads_in_d_state"]) == (scheduler.pid, "S", 0)
    assert evidence["spinning"]
    assert evidence["stack"] == [f"Thread {scheduler.pid}"]
    assert evidence["notes"] == []
    assert summary(evidence).startswith("GPUs 99 to 100 % busy, 88 to 92 W, schedulers in state S")


def test_a_stopped_process_is_told(scheduler: ProcessFacts) -> None:
    os.kill(scheduler.pid, signal.SIGSTOP)
    table = ProcessTable()
    while (facts := table.read(scheduler.pid)) is not None and facts.state != "T":
        time.sleep(0.01)
    evidence = collect([scheduler], table, "")
    process = evidence["processes"][0]
    assert process["state"] == "T"
    assert process["wait_channel"] in ("do_signal_stop", "")
    assert summary(evidence).startswith("schedulers in state T")


def test_every_scheduler_is_looked_into(
    scheduler: ProcessFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "py-spy", "echo Thread $4")
    assert collect([scheduler, scheduler], ProcessTable(), "")["stack"] == [f"Thread {scheduler.pid}"] * 2
    monkeypatch.setattr(stall_evidence, "STACKS_TIME_S", -1.0)
    evidence = collect([scheduler, scheduler], ProcessTable(), "")
    assert (evidence["stack"], evidence["notes"]) == ([], ["py-spy took too long for 2 of 2 schedulers"])


@pytest.mark.parametrize(
    ("body", "note"),
    [("echo no driver >&2; exit 9", "failed (no driver)"), ("exit 3", "failed (3)"), ("sleep 5", "did not")],
)
def test_a_tool_that_does_not_help(
    scheduler: ProcessFacts, tmp_path: Path, body: str, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall_evidence, "COMMAND_TIMEOUT_S", 0.5)
    monkeypatch.setenv("PATH", "/nowhere")
    evidence = collect([scheduler], ProcessTable(), program(tmp_path / "smi", f"PATH=/bin:/usr/bin; {body}"))
    assert evidence["gpus"] == []
    assert note in evidence["notes"][0]
    assert evidence["notes"][1] == "py-spy is not installed"


def test_nobody_to_look_into(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    me = ProcessTable().read(os.getpid())
    assert me is not None
    evidence = collect([me], ProcessTable(), "/no/such/program")
    assert evidence["notes"] == [
        "/no/such/program cannot be run".replace("/no/such/program", "nvidia-smi") + " (No such file or directory)",
        "no scheduler process to look into",
    ]
    assert summary(evidence) == ""
    # A process that is gone has no Python to look beside: what the PATH has is taken.
    monkeypatch.setenv("PATH", str(tmp_path))
    assert stall_evidence._py_spy(2**30) is None
    found = program(tmp_path / "py-spy", "exit 0")
    assert stall_evidence._py_spy(2**30) == found


def failure(**changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "phase": "target_graphs",
        "lines": [],
        "survivors": [],
        "exit_status": None,
        "tail_lines": 5,
    }
    return health_report.failure(**{**arguments, **changes})


def test_the_report_of_ranks_that_wait_for_each_other() -> None:
    evidence = {"gpus": parse_gpus(SPINNING), "spinning": True, "processes": [], "stack": [], "notes": []}
    failed = failure(evidence=evidence)
    assert (failed["class"], failed["phase"], failed["confidence"]) == ("p2p-hang", "target_graphs", "medium")
    assert "NCCL_P2P_DISABLE=1" in failed["remedy"]
    assert failed["runbook"] == "docs/runbooks/p2p-hang.md"
    assert "every GPU is busy at low power" in failed["cause"]
    sentence = health_report.sentence("has not advanced for 9 s (limit 8 s)", 12.0, failed, 9.0)
    assert "GPUs 99 to 100 % busy" in sentence


@pytest.mark.parametrize(("phase", "gpus"), [("weights", SPINNING), ("serving", SPINNING), ("warmup", SPINNING[:31])])
def test_busy_gpus_alone_do_not_say_that_peers_hang(phase: str, gpus: str) -> None:
    evidence = {"gpus": parse_gpus(gpus), "spinning": True, "processes": [], "stack": [], "notes": []}
    assert failure(phase=phase, evidence=evidence)["class"] == "unknown"


def test_a_stopped_rank_is_named_with_the_way_out() -> None:
    ranks = [
        {
            "pid": 40 + rank,
            "name": f"sglang::scheduler_TP{rank}",
            "state": state,
            "wait_channel": "",
            "threads_in_d_state": 0,
        }
        for rank, state in enumerate("STTTT")
    ]
    evidence = {"gpus": [], "spinning": False, "processes": ranks, "stack": [], "notes": []}
    failed = failure(evidence=evidence)
    assert failed["class"] == "unknown"
    assert (
        "holds sglang::scheduler_TP1 (41), sglang::scheduler_TP2 (42), sglang::scheduler_TP3 (43) and 1 more"
        in failed["cause"]
    )
    assert "kill -CONT 41 42 43 44" in failed["remedy"]


def test_a_server_that_served_and_died_is_not_called_healthy() -> None:
    lines = ["[2026-01-01 00:00:00] The server is fired up and ready to roll!"]
    assert failure(lines=lines, phase="serving")["class"] == "unknown"
    assert failure(exit_status=2)["class"] == "spec-args"
