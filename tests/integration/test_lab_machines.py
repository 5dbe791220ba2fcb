"""The lab looks like a Proxmox host with a container in it: cgroups, process numbers, pct, SSH."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lab.running import RunningLab

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab


def pid_on_pve(lab: RunningLab, command_line: str) -> str:
    pids = lab.pve("pgrep", "--full", "--exact", command_line).stdout.split()
    assert len(pids) == 1, pids
    return pids[0]


def unified_cgroup(lab: RunningLab, pid: str) -> str:
    lines = lab.pve("cat", f"/proc/{pid}/cgroup").stdout.splitlines()
    return next(line.removeprefix("0::") for line in lines if line.startswith("0::"))


def test_a_unit_of_the_container_is_in_its_cgroup_seen_from_the_host(container: RunningLab) -> None:
    container.container("systemd-run", "--unit=sleeper", "sleep", "4001")
    pid = pid_on_pve(container, "/usr/bin/sleep 4001")
    assert unified_cgroup(container, pid) == "/lxc/129/ns/system.slice/sleeper.service"


def test_a_process_left_by_pct_exec_is_outside_any_unit(container: RunningLab) -> None:
    container.container("sh", "-c", "setsid sleep 4002 >/dev/null 2>&1 </dev/null &")
    pid = pid_on_pve(container, "sleep 4002")
    assert unified_cgroup(container, pid) == "/lxc/129/ns/.lxc"


def test_a_process_of_the_container_has_a_number_on_the_host_and_one_inside(container: RunningLab) -> None:
    container.container("systemd-run", "--unit=sleeper", "sleep", "4003")
    pid = pid_on_pve(container, "/usr/bin/sleep 4003")
    inside = container.container("systemctl", "show", "--property=MainPID", "--value", "sleeper").stdout.strip()
    status = container.pve("cat", f"/proc/{pid}/status").stdout
    numbers = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
    assert numbers == [pid, inside]


def test_the_container_and_its_processes_share_a_pid_namespace(container: RunningLab) -> None:
    container.container("systemd-run", "--unit=sleeper", "sleep", "4004")
    pid = pid_on_pve(container, "/usr/bin/sleep 4004")
    init = container.pve("lxc-info", "-n", "129", "-p", "-H").stdout.strip()
    namespaces = container.pve(
        "readlink", f"/proc/{pid}/ns/pid", f"/proc/{init}/ns/pid", "/proc/1/ns/pid"
    ).stdout.split()
    assert namespaces[0] == namespaces[1] != namespaces[2]


def test_nothing_of_this_machine_is_visible_on_the_host(lab: RunningLab) -> None:
    commands = lab.pve("ps", "-e", "-o", "comm=").stdout.split()
    assert "systemd" in commands
    assert not {"pytest", "unshare"} & set(commands)


@pytest.mark.parametrize(
    ("command", "status"),
    [(["true"], 0), (["sh", "-c", "exit 7"], 7), (["no-such-program"], 127), (["sh", "-c", "kill -9 $$"], 137)],
    ids=["ok", "own status", "not found", "killed"],
)
def test_pct_exec_returns_the_status_of_the_command(lab: RunningLab, command: list[str], status: int) -> None:
    assert lab.container(*command).returncode == status


def test_pct_says_which_containers_run(container: RunningLab) -> None:
    assert container.pve("pct", "status", "129").stdout == "status: running\n"
    assert container.pve("pct", "status", "1290").stdout == "status: stopped\n"
    missing = container.pve("pct", "status", "131")
    assert missing.returncode == 255
    assert "does not exist" in missing.stderr


def test_pct_exec_refuses_a_stopped_container(container: RunningLab) -> None:
    refused = container.container("true", vmid=1290)
    assert refused.returncode == 255
    assert refused.stderr == "container '1290' not running!\n"


def test_pct_exec_passes_the_environment_of_the_host_on_unless_told_not_to(lab: RunningLab) -> None:
    assert lab.pve("env", "SECRET=1", "pct", "exec", "129", "--", "printenv", "SECRET").stdout == "1\n"
    assert (
        lab.pve("env", "SECRET=1", "pct", "exec", "129", "--keep-env", "0", "--", "printenv", "SECRET").returncode == 1
    )


def test_shutdown_ends_the_container(container: RunningLab) -> None:
    assert container.pve("pct", "shutdown", "129").returncode == 0
    assert container.pve("pct", "status", "129").stdout == "status: stopped\n"


@pytest.mark.parametrize(("machine", "hostname"), [("pve", "pve"), ("129", "inference")])
def test_ssh_reaches_every_machine(container: RunningLab, machine: str, hostname: str) -> None:
    assert container.ssh(machine, "hostname").stdout.strip() == hostname


def test_ssh_refuses_a_machine_with_another_host_key(lab: RunningLab) -> None:
    known_hosts = lab.paths.state / "known_hosts"
    before = known_hosts.read_text()
    lines = before.splitlines()
    pve, inference = (line.split(maxsplit=1) for line in lines[:2])
    known_hosts.write_text(f"{pve[0]} {inference[1]}\n")
    try:
        refused = lab.ssh("pve", "true")
    finally:
        known_hosts.write_text(before)
    assert refused.returncode == 255


def test_ssh_is_quick_again_after_the_container_was_restarted(container: RunningLab) -> None:
    container.pve("pct", "stop", "129")
    container.start_container()
    began = time.monotonic()
    assert container.ssh("129", "true").returncode == 0
    assert time.monotonic() - began < 5  # a changed hardware address would cost a minute


def test_a_rollback_empties_the_disk(container: RunningLab) -> None:
    container.container("touch", "/root/trace")
    container.pve("pct", "stop", "129")
    container.start_container()
    assert container.container("test", "-e", "/root/trace").returncode == 0
    container.reset_container()
    assert container.container("test", "-e", "/root/trace").returncode == 1


def test_the_serving_environment_is_that_of_the_distributions_python(lab: RunningLab) -> None:
    program = "import sys, sitecustomize; print(sys.prefix, sitecustomize.__file__)"
    prefix, shadowing = lab.container("/root/ml-env/bin/python3", "-c", program).stdout.split()
    assert prefix == "/root/ml-env"
    assert shadowing == "/usr/lib/python3.11/sitecustomize.py"
