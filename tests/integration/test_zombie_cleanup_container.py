"""The role on a Proxmox host with real containers: cgroups, PID namespaces, pct and systemd are the real ones."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.playbook import run_playbook
from tests.lab.running import RunningLab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.playbook import PlaybookOutcome

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab

FREEZER = Path("/sys/fs/cgroup/freezer")
TENANT_MIB = 20000
START_SERVER = """
import json, pathlib, subprocess
quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
server = subprocess.Popen(["hold-gpu", "--gpus", "0,1", "--mib", "70000"], start_new_session=True, **quiet)
stat = pathlib.Path(f"/proc/{server.pid}/stat").read_text()
record = {
    "launch_id": "one", "pid": server.pid, "session": server.pid,
    "start_ticks": int(stat.rpartition(")")[2].split()[19]),
    "boot_id": pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
}
pathlib.Path("/var/lib/sglang").mkdir(exist_ok=True)
pathlib.Path("/var/lib/sglang/launch.json").write_text(json.dumps(record))
print(server.pid)
"""


class Host:
    """The Proxmox host with container 129, and container 1290, whose job on GPU 7 must survive everything."""

    def __init__(self, lab: RunningLab, directory: Path) -> None:
        self.lab = lab
        self.directory = directory
        self.runs = 0

    def clean(self, *, check: bool = False, **variables: Any) -> PlaybookOutcome:
        self.runs += 1
        directory = self.directory / str(self.runs)
        directory.mkdir()
        chosen = {"fail_on_foreign": False, "grace_s": 2, "kill_wait_s": 2, "settle_s": 2} | variables
        play = {"name": "Clean", "hosts": "inference", "gather_facts": False, "roles": ["zombie_cleanup"]}
        extra = {f"zombie_cleanup_{name}": value for name, value in chosen.items()}
        return run_playbook(self.lab, [play], directory, variables=extra, check=check)

    def hold(self, *options: str, vmid: int = 129) -> None:
        done = self.lab.container("hold-gpu", "--orphan", *options, vmid=vmid)
        assert done.returncode == 0, done.stderr

    def used_mib(self) -> list[int]:
        query = self.lab.pve("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
        return [int(line) for line in query.stdout.split()]

    def holders(self) -> set[int]:
        query = self.lab.pve("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader,nounits")
        return {int(line) for line in query.stdout.split()}

    def wait_for_holders(self, count: int) -> None:
        self.lab.wait_until(lambda: len(self.holders()) == count, f"{count} holders")


def signals(outcome: PlaybookOutcome) -> list[str]:
    return [row["signal"] for row in result(outcome)["killed"]]


def result(outcome: PlaybookOutcome) -> Mapping[str, Any]:
    return outcome.of("gpu_reap")


@pytest.fixture
def host(container: RunningLab, tmp_path: Path) -> Iterator[Host]:
    host = Host(container, tmp_path)
    container.start_container(1290)
    host.hold("--gpus", "7", "--mib", str(TENANT_MIB), "--title", "another-job", vmid=1290)
    tenant = host.holders()
    yield host
    assert tenant <= host.holders()
    assert host.used_mib()[7] >= TENANT_MIB


def test_orphans_of_pct_exec_go_beside_the_tenant_on_the_same_gpu(host: Host) -> None:
    host.hold("--gpus", "0,1", "--mib", "76000")
    host.hold("--gpus", "2,7", "--mib", "70000", "--ignore-term", "--generations", "2")
    predicted = host.clean(check=True)
    assert result(predicted)["changed"]
    assert len(result(predicted)["killed"]) == 3
    assert len(host.holders()) == 4
    done = host.clean()
    assert sorted(signals(done)) == ["KILL", "KILL", "TERM"]
    assert host.used_mib() == [0] * 7 + [TENANT_MIB]
    again = host.clean()
    assert not result(again)["changed"]
    assert result(again)["elapsed_s"] < 2  # it waits for nothing


def test_tenant_with_memory_is_named_and_fails_the_cleaning(host: Host) -> None:
    done = host.clean(fail_on_foreign=True)
    assert done.return_code != 0
    assert "another-job" in result(done)["msg"]
    assert "container 1290" in result(done)["msg"]


def test_live_unit_is_protected_then_stopped_through_systemd(host: Host) -> None:
    host.lab.container("systemd-run", "--unit=sglang.service", "hold-gpu", "--gpus", "0,1", "--mib", "70000")
    host.hold("--gpus", "2", "--mib", "70000")
    host.wait_for_holders(3)
    done = host.clean()
    assert signals(done) == ["TERM"]
    assert host.used_mib()[:3] == [70000, 70000, 0]
    done = host.clean(mode="all")
    assert set(signals(done)) == {"unit"}
    assert result(done)["unit"]["stopped"]
    assert host.used_mib()[:3] == [0, 0, 0]
    assert not result(host.clean(mode="all"))["changed"]


def test_launch_record_in_the_container(host: Host) -> None:
    leader = host.lab.container("python3", "-c", START_SERVER).stdout.strip()
    host.wait_for_holders(2)
    assert not result(host.clean())["changed"]
    host.lab.container("kill", "-KILL", leader)
    assert len(host.holders()) == 2
    done = host.clean(mode="all")
    assert signals(done) == ["TERM"]
    assert [row["launch_id"] for row in result(done)["launches_removed"]] == ["one"]
    files = host.lab.container("ls", "/var/lib/sglang").stdout.split()
    assert files == ["launch.json.last"]


def test_open_device_without_memory_makes_an_orphan(host: Host) -> None:
    command = "exec 3<>/dev/nvidia2; setsid sleep 4003 </dev/null >/dev/null 2>&1 &"
    host.lab.container("sh", "-c", command)
    done = host.clean()
    assert [row["name"] for row in result(done)["killed"]] == ["sleep"]


def test_stopped_and_missing_containers(host: Host) -> None:
    host.hold("--gpus", "0", "--mib", "70000")
    host.lab.pve("pct", "stop", "129")
    done = host.clean(mode="all")
    assert done.return_code == 0
    assert not result(done)["changed"]
    done = host.clean(vmid=131)
    assert "Container 131 is not a container of this node" in result(done)["msg"]


def test_silent_driver_ends_the_cleaning(host: Host) -> None:
    host.hold("--gpus", "0", "--mib", "70000")
    host.lab.pve("touch", "/var/lib/simulated-gpu/fail")
    done = host.clean()
    host.lab.pve("rm", "/var/lib/simulated-gpu/fail")
    assert "NVIDIA-SMI has failed" in result(done)["msg"]
    assert len(host.holders()) == 2


@pytest.mark.skipif(not (FREEZER / "cgroup.procs").exists(), reason="no version 1 freezer to make a process unkillable")
def test_process_in_state_d_is_reported_with_what_it_waits_for(host: Host) -> None:
    host.hold("--gpus", "0", "--mib", "70000")
    (stuck,) = host.holders() - tenant_pids(host)
    with frozen(pid_on_this_machine(host, stuck)):
        done = host.clean(kill_wait_s=0.3, settle_s=60)
        assert done.return_code != 0
        assert result(done)["survivors"][0]["state"] == "D"
        assert result(done)["runbook"] == "docs/runbooks/gpu-process-in-d-state.md"
        assert result(done)["elapsed_s"] < 30  # no waiting for memory that cannot come back
        again = host.clean(grace_s=60, kill_wait_s=0.3)
        assert result(again)["elapsed_s"] < 30  # no second round of signals
    host.wait_for_holders(1)  # SIGKILL was pending


def tenant_pids(host: Host) -> set[int]:
    return {pid for pid in host.holders() if "/lxc/1290/" in host.lab.pve("cat", f"/proc/{pid}/cgroup").stdout}


def pid_on_this_machine(host: Host, pid: int) -> int:
    """The number here of a process of container 129 with the number ``pid`` on the Proxmox host."""
    inside = host.lab.pve("readlink", f"/proc/{pid}/ns/pid").stdout.strip()
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            numbers = next(line.split()[1:] for line in status.read_text().splitlines() if line.startswith("NSpid:"))
            if len(numbers) == 4 and numbers[2] == str(pid) and str((status.parent / "ns/pid").readlink()) == inside:
                return int(numbers[0])
    raise AssertionError(f"process {pid} of the lab is not visible here")


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    group = FREEZER / f"zombie-cleanup-{pid}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
        yield
    finally:
        (group / "freezer.state").write_text("THAWED")
        with contextlib.suppress(OSError):
            (FREEZER / "cgroup.procs").write_text(str(pid))
        RunningLab.wait_until(lambda: not (group / "cgroup.procs").read_text().strip(), "an empty freezer")
        group.rmdir()
