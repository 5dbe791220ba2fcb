"""A lab leaves nothing behind, however it ends, and says why where it cannot run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab.layout import LAB_SOURCE, Paths
from tests.lab.processes import ProcessIdentity, start_ticks
from tests.lab.requirements import cgroup2_mount

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab

NAME = f"life-{os.getpid()}"
NAMESPACE_KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "uts")


@dataclass(frozen=True)
class Footprint:
    """What a lab could leave on the machine."""

    mounts: int
    cgroups: frozenset[str]
    interfaces: frozenset[str]
    namespaces: frozenset[str]
    processes: frozenset[str]
    state: bool

    @classmethod
    def now(cls, started_before: float = float("inf")) -> Footprint:
        """Look at the machine; the kernel gives numbers of namespaces again, so later processes must be left out."""
        cgroup = cgroup2_mount()
        assert cgroup is not None
        namespaces, processes = set(), set()
        for directory in Path("/proc").iterdir():
            ticks = start_ticks(int(directory.name)) if directory.name.isdigit() else None
            if ticks is None or ticks > started_before:
                continue
            try:
                own = {str((directory / "ns" / kind).readlink()) for kind in NAMESPACE_KINDS}
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                cgroups = (directory / "cgroup").read_text()
            except OSError:  # ended in the meantime
                continue
            if "sglang-lab-" in cgroups and NAME not in cgroups:  # of a lab that another test runs meanwhile
                continue
            namespaces |= own
            if NAME in command or "lxc" in command:
                processes.add(f"{directory.name} {command}")
        return cls(
            mounts=len(Path("/proc/self/mounts").read_text().splitlines()),
            cgroups=frozenset(directory for directory, _, _ in os.walk(cgroup)),
            interfaces=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
            namespaces=frozenset(namespaces),
            processes=frozenset(processes),
            state=Paths(NAME).state.exists(),
        )

    def beyond(self, before: Footprint) -> dict[str, object]:
        """What is here now and was not before. Those of other programs come and go."""
        return {
            "mounts": max(0, self.mounts - before.mounts),
            "cgroups": {name for name in self.cgroups - before.cgroups if NAME in name},
            "interfaces": self.interfaces - before.interfaces,
            "processes": self.processes - before.processes,
            "state": self.state,
        }


NOTHING = {"mounts": 0, "cgroups": set(), "interfaces": frozenset(), "processes": frozenset(), "state": False}


def lab_command(*arguments: str, name: str = NAME) -> subprocess.CompletedProcess[str]:
    command = [str(LAB_SOURCE / "lab"), "--name", name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)


def namespaces_of_lab(name: str = NAME) -> set[str]:
    init = ProcessIdentity.read(Paths(name).init)
    assert init is not None
    return {str(Path(f"/proc/{init.pid}/ns/{kind}").readlink()) for kind in NAMESPACE_KINDS}


def wait_for_nothing(before: Footprint, own_namespaces: set[str]) -> None:
    deadline = time.monotonic() + 10
    entered = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
    while True:
        now = Footprint.now(started_before=entered)
        if now.beyond(before) == NOTHING and not own_namespaces & now.namespaces:
            return
        assert time.monotonic() < deadline, (now.beyond(before), own_namespaces & now.namespaces)
        time.sleep(0.05)


@pytest.fixture
def before(lab_can_run: None) -> Iterator[Footprint]:  # noqa: ARG001 (for its effect)
    yield Footprint.now()
    lab_command("down")


def test_up_and_down_are_idempotent(before: Footprint) -> None:
    assert lab_command("status").returncode == 3
    assert lab_command("up").returncode == 0
    own = namespaces_of_lab()
    again = lab_command("up")
    assert (again.returncode, "running already" in again.stdout) == (0, True)
    assert namespaces_of_lab() == own
    assert lab_command("status").returncode == 0
    assert lab_command("down").returncode == 0
    assert lab_command("down").returncode == 0
    wait_for_nothing(before, own)


@pytest.mark.slow
def test_many_cycles_leak_nothing(before: Footprint) -> None:
    for cycle in range(int(os.environ.get("LAB_CYCLES", "3"))):
        began = time.monotonic()
        assert lab_command("up").returncode == 0, cycle
        assert time.monotonic() - began < 5, f"cycle {cycle} booted too slowly"
        own = namespaces_of_lab()
        assert lab_command("ssh", "129", "--", "true").returncode == 0, cycle
        assert lab_command("down").returncode == 0, cycle
        wait_for_nothing(before, own)


@pytest.mark.parametrize("victim", ["holder", "keeper", "init"])
def test_nothing_is_left_when_a_process_of_the_lab_is_killed(before: Footprint, victim: str) -> None:
    assert lab_command("up").returncode == 0
    own = namespaces_of_lab()
    process = ProcessIdentity.read(getattr(Paths(NAME), victim))
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    if victim != "holder":  # the holder lives and has the pipe: the next command ends it
        assert lab_command("down").returncode == 0
    wait_for_nothing(before, own)


def test_a_lab_whose_holder_and_keeper_were_killed_does_not_hinder_the_next(before: Footprint) -> None:
    assert lab_command("up").returncode == 0
    own = namespaces_of_lab()
    first = ProcessIdentity.read(Paths(NAME).init)
    for path in (Paths(NAME).keeper, Paths(NAME).holder):
        process = ProcessIdentity.read(path)
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
    assert lab_command("up").returncode == 0
    assert ProcessIdentity.read(Paths(NAME).init) != first
    assert lab_command("down").returncode == 0
    wait_for_nothing(before, own)


def test_nothing_is_left_of_a_test_that_is_killed(before: Footprint) -> None:
    program = (
        "import time; from tests.lab.holding import held_lab\n"
        f"with held_lab({NAME!r}): print('up', flush=True); time.sleep(99)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=LAB_SOURCE.parents[1]) as test:
        assert test.stdout is not None
        assert test.stdout.readline() == b"up\n"
        own = namespaces_of_lab()
        test.kill()
    wait_for_nothing(before, own)


def test_run_takes_a_lab_of_its_own_and_returns_the_status_of_the_command(before: Footprint) -> None:
    done = lab_command("run", "--", "sh", "-c", "ip -brief address show vmbr0; test -f $LAB_INVENTORY && exit 9")
    assert done.returncode == 9, done
    assert "10.129.0.1/24" in done.stdout
    wait_for_nothing(before, set())


def test_two_labs_run_side_by_side(before: Footprint) -> None:
    other = f"{NAME}b"
    try:
        assert lab_command("up").returncode == 0
        assert lab_command("up", name=other).returncode == 0
        own = namespaces_of_lab() | namespaces_of_lab(other)
        lab_command("ssh", "129", "--", "touch", "/root/first")
        assert lab_command("ssh", "129", "--", "test", "-e", "/root/first").returncode == 0
        assert lab_command("ssh", "129", "--", "test", "-e", "/root/first", name=other).returncode == 1
    finally:
        lab_command("down", name=other)
        lab_command("down")
    wait_for_nothing(before, own)


def test_a_machine_without_lxc_gets_the_reason_and_status_77(before: Footprint, tmp_path: Path) -> None:  # noqa: ARG001
    (tmp_path / "python3").symlink_to(sys.executable)
    command = [sys.executable, str(LAB_SOURCE / "lab"), "--name", NAME, "up"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PATH": str(tmp_path), "HOME": "/root"}, check=False
    )
    assert done.returncode == 77
    assert done.stderr == "lab: the lab needs lxc-start, which is not installed: apt-get install lxc\n"


def test_a_lab_name_that_cannot_be_a_path_is_refused() -> None:
    done = lab_command("up", name="../x")
    assert done.returncode == 1
    assert "'../x' is not usable" in done.stderr
