from __future__ import annotations

import os
import subprocess
import sys
import time

from controller import process


def test_the_start_of_a_process_identifies_it() -> None:
    ticks = process.start_ticks(os.getpid())
    assert ticks is not None
    assert ticks == process.start_ticks(os.getpid())
    assert process.start_ticks(2**22 + 1) is None


def test_a_process_runs_when_id_start_and_boot_agree() -> None:
    pid, ticks = os.getpid(), process.start_ticks(os.getpid())
    assert ticks is not None
    assert process.is_running(pid, ticks, process.boot_id())
    assert process.is_running(pid, ticks)
    assert not process.is_running(pid, ticks + 1)
    assert not process.is_running(pid, ticks, "another boot")
    assert not process.is_running(2**22 + 1, None)


def test_a_zombie_is_gone() -> None:
    child = subprocess.Popen(["true"])
    deadline = time.monotonic() + 5
    while process.start_ticks(child.pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.start_ticks(child.pid) is None
    child.wait()


def test_a_process_is_found_by_its_environment_and_ended() -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)",
        ],
        env=os.environ | {"PROCESS_TEST_MARK": "one two"},
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    assert child.pid in process.with_environment("PROCESS_TEST_MARK", "one two")
    assert child.pid not in process.with_environment("PROCESS_TEST_MARK", "one")
    assert "-c" in process.command_line(child.pid)
    ticks = process.start_ticks(child.pid)
    assert ticks is not None
    assert process.end({child.pid: ticks + 1}, grace_s=0.1) == []
    assert child.poll() is None
    assert process.end({child.pid: ticks}, grace_s=0.1) == [child.pid]
    assert child.wait() == -9
    child.stdout.close()
    assert process.end({child.pid: ticks}) == []


def test_a_process_that_is_gone_has_no_command() -> None:
    assert process.command_line(2**22 + 1) == []
