"""A process number given away between SIGTERM and SIGKILL, for real: the kernel is told which one comes next."""

from __future__ import annotations

import io
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.lab.layout import REPOSITORY

if TYPE_CHECKING:
    from tests.lab.running import RunningLab

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab

PACKAGE = "ansible_collections/sglang_ops/eagle3/plugins/module_utils"

# On pve: a process that ignores SIGTERM is to be ended. While the grace time runs it goes by itself, and its number is
# given to another. `ns_last_pid` is the last number that the PID namespace gave away.
PROGRAM = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_signals import send_signal
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_termination import Terminator

def start():
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()
    return pid

def start_with_number(number):
    for _ in range(200):
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(number - 1))
        pid = start()
        if pid == number:
            return
        os.kill(pid, signal.SIGKILL)  # somebody else was quicker
        os.waitpid(pid, 0)
    sys.exit(f"the number {number} was not to be had")

def give_the_number_away(seconds):
    if not given:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        time.sleep(0.05)  # start times are counted in hundredths of a second
        start_with_number(victim)
        given.append(victim)
    time.sleep(seconds)

table, given = ProcessTable(), []
victim = start()
time.sleep(0.1)
chosen = table.read(victim)
outcome = Terminator(table, grace_s=0.5, kill_wait_s=0.5, sleep=give_the_number_away).terminate([chosen], [chosen])
newcomer = table.read(victim)
assert newcomer is not None and newcomer.live_thread, "the process that got the number was ended"
assert newcomer.start_ticks != chosen.start_ticks
assert [ended.signal for ended in outcome.ended] == ["TERM"], outcome
assert not outcome.survivors, outcome
assert not send_signal(victim, chosen.start_ticks, signal.SIGKILL, table.start_ticks)
assert table.is_alive(victim, newcomer.start_ticks)
os.kill(victim, signal.SIGKILL)
print("spared", victim)
"""


def module_utils() -> bytes:
    """The shared code of the modules as an archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(
            REPOSITORY / "plugins/module_utils", PACKAGE, filter=lambda info: None if "cache" in info.name else info
        )
    return archive.getvalue()


def test_the_process_that_got_the_number_between_term_and_kill_is_spared(lab: RunningLab) -> None:
    unpack = lab.enter_pve("sh", "-c", "mkdir -p /root/reuse && tar -x -C /root/reuse")
    subprocess.run(unpack, input=module_utils(), check=True, timeout=30)
    done = lab.pve("/usr/bin/python3", "-c", PROGRAM, "/root/reuse")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("spared")
