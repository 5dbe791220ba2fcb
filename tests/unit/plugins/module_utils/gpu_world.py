"""A machine on paper: a directory that looks like /proc, GPUs, and processes that react to signals as told."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_container import UnitState
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_node import Node
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_reaper import Reaper, ReapOptions
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import ComputeApp, Gpu
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_termination import Terminator

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


TOTAL_MIB = 97887
INIT = 500
CONTAINER_NAMESPACE = "pid:[4026532129]"
HOST_NAMESPACE = "pid:[4026531836]"
BOOT_ID = "11111111-2222-4333-8444-555555555555"
UNIT = "sglang.service"
UNIT_CGROUP = f"/lxc/129/ns/system.slice/{UNIT}"


def stat_line(
    pid: int,
    name: str,
    state: str = "S",
    parent: int = 1,
    group: int = 0,
    session: int = 0,
    start: int = 100,
    flags: int = 0,
) -> str:
    head = [state, parent, group or pid, session or pid, 0, -1, flags, *[0] * 12, start, *[0] * 20]
    return f"{pid} ({name}) " + " ".join(map(str, head)) + "\n"


def gpu(index: int) -> Gpu:
    return Gpu(index, f"GPU-{index}", f"00000000:{index + 1:02X}:00.0", 0, TOTAL_MIB)


@dataclass
class World:
    """``memory[pid]`` is what a process holds: GPU index -> MiB (None: nvidia-smi does not say)."""

    root: Path
    gpus: list[Gpu] = field(default_factory=lambda: [gpu(0), gpu(1)])
    memory: dict[int, dict[int, int | None]] = field(default_factory=dict)
    hidden_mib: dict[int, int] = field(default_factory=dict)
    extra_apps: list[ComputeApp] = field(default_factory=list)
    ignores: dict[int, set[int]] = field(default_factory=dict)
    takes_along: dict[int, list[int]] = field(default_factory=dict)
    on_death: dict[int, Callable[[], None]] = field(default_factory=dict)
    signals: list[tuple[int, int]] = field(default_factory=list)
    time_s: float = 0.0
    at: dict[float, Callable[[], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.root / "sys/kernel/random").mkdir(parents=True)
        (self.root / "sys/kernel/random/boot_id").write_text(BOOT_ID + "\n")

    @property
    def state_dir(self) -> Path:
        return self.root.parent / "state"

    # -- processes

    def process(
        self,
        pid: int,
        name: str = "python3",
        *,
        argv: list[str] | None = None,
        cgroup: str = "/system.slice/ssh.service",
        namespace: str = HOST_NAMESPACE,
        inner: int | None = None,
        inner_session: int | None = None,
        memory: dict[int, int | None] | None = None,
        devices: list[str] | None = None,
        threads: list[tuple[str, str]] | None = None,
        kill_pending: bool = False,
        **stat: Any,
    ) -> int:
        directory = self.root / str(pid)
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "fd").mkdir(parents=True)
        (directory / "ns").mkdir()
        (directory / "stat").write_text(stat_line(pid, name, **stat))
        (directory / "cmdline").write_text("\0".join(argv or [name]) + "\0")
        (directory / "cgroup").write_text(f"4:memory:/lxc/999\n1:name=systemd:/\n0::{cgroup}\n")
        (directory / "ns/pid").symlink_to(namespace)
        session = stat.get("session") or pid
        ids = f"NSpid:\t{pid}\nNSsid:\t{session}\n"
        if inner is not None:
            ids = f"NSpid:\t{pid}\t{inner}\nNSsid:\t{session}\t{inner_session or inner}\n"
        (directory / "status").write_text(f"Name:\t{name}\n{ids}")
        for number, device in enumerate(["/dev/null", *(devices or [])]):
            (directory / "fd" / str(number)).symlink_to(device)
        pending = f"SigPnd:\t0000000000000000\nShdPnd:\t0000000000000{int(kill_pending)}00\n"
        for offset, (state, wait_channel) in enumerate(threads or [(stat.get("state", "S"), "0")]):
            task = directory / "task" / str(pid + offset)
            (task / "fd").mkdir(parents=True)
            (task / "status").write_text(f"Name:\t{name}\nState:\t{state} (whatever)\n{pending}")
            (task / "wchan").write_text(wait_channel)
        if memory:
            self.memory[pid] = memory
        return pid

    def container(self, vmid: int = 129, pid: int = INIT, namespace: str = CONTAINER_NAMESPACE) -> None:
        self.process(
            pid,
            "systemd",
            cgroup=f"/lxc/{vmid}/ns/init.scope",
            namespace=namespace,
            inner=1,
            start=50,
            parent=400,
            group=pid,
        )
        inside = self.root / str(pid) / "root"
        (inside / "proc/sys/kernel/random").mkdir(parents=True)
        (inside / "proc/sys/kernel/random/boot_id").write_text("of-the-container\n")
        (inside / "dev").mkdir()

    def guest(self, pid: int, name: str = "python3", *, cgroup: str = "/lxc/129/ns/.lxc", **more: Any) -> int:
        """A process of container 129; its number in there is ``pid - 1000``."""
        session = more.get("session") or pid
        more.setdefault("parent", INIT)
        return self.process(
            pid,
            name,
            cgroup=cgroup,
            namespace=CONTAINER_NAMESPACE,
            inner=pid - 1000,
            inner_session=session - 1000,
            **more,
        )

    def record(
        self, leader: int, start: int, *, name: str = "launch.json", where: Path | None = None, **more: Any
    ) -> Path:
        directory = where or self.state_dir
        directory.mkdir(parents=True, exist_ok=True)
        content = {"schema": 1, "launch_id": f"launch-{leader}", "pid": leader, "session": leader, "start_ticks": start}
        content["boot_id"] = BOOT_ID if where is None else "of-the-container"
        path = directory / name
        path.write_text(json.dumps(content | more))
        return path

    def record_in_container(self, leader: int, start: int, **more: Any) -> Path:
        """A record of a guest process, in the numbers of the container."""
        return self.record(leader - 1000, start, where=self.root / str(INIT) / "root/var/lib/sglang", **more)

    def alive(self, pid: int) -> bool:
        return (self.root / str(pid)).exists()

    def die(self, pid: int) -> None:
        if not self.alive(pid):
            return
        shutil.rmtree(self.root / str(pid))
        self.memory.pop(pid, None)
        for child in self.takes_along.get(pid, []):
            self.die(child)
        self.on_death.pop(pid, lambda: None)()

    def send_signal(self, pid: int, start_ticks: int, number: int, read: Callable[[int], int | None]) -> bool:
        if read(pid) != start_ticks:
            return False
        self.signals.append((pid, int(number)))
        if number not in self.ignores.get(pid, set()):
            self.die(pid)
        return True

    # -- nvidia-smi, clock

    def smi_gpus(self) -> list[Gpu]:
        def used(index: int) -> int:
            return self.hidden_mib.get(index, 0) + sum(m.get(index) or 0 for m in self.memory.values())

        return [Gpu(g.index, g.uuid, g.bus_id, used(g.index), g.total_mib) for g in self.gpus]

    def smi_apps(self) -> list[ComputeApp]:
        apps = [
            ComputeApp(f"GPU-{index}", pid, "python3", mib)
            for pid, held in self.memory.items()
            for index, mib in held.items()
        ]
        return apps + self.extra_apps

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds
        for moment in [moment for moment in self.at if moment <= self.time_s]:
            self.at.pop(moment)()

    # -- the cleaning

    def node(self, container: Any = None, uuids: list[str] | None = None) -> Node:
        smi: Any = type("Smi", (), {"gpus": lambda _: self.smi_gpus(), "compute_apps": lambda _: self.smi_apps()})()
        state_dir = "/var/lib/sglang" if container is not None else str(self.state_dir)
        return Node(ProcessTable(str(self.root)), smi, container, state_dir, uuids or [])

    def reaper(self, container: Any = None, uuids: list[str] | None = None, **options: Any) -> Reaper:
        node = self.node(container, uuids)
        chosen: dict[str, Any] = {
            "mode": "orphans",
            "unit": UNIT,
            "settle_s": 5,
            "idle_mib": 512,
            "fail_on_foreign": True,
            "allow_leak": False,
            "check_mode": False,
        }
        terminator = Terminator(node.table, 4, 2, clock=lambda: self.time_s, sleep=self.sleep)
        return Reaper(node, terminator, ReapOptions(**(chosen | options)), clock=lambda: self.time_s, sleep=self.sleep)


@dataclass
class FakeContainer:
    """Container 129 on paper. ``stops`` are the pids that go when the unit is stopped."""

    world: World
    vmid: int = 129
    running: bool = True
    unit: UnitState | None = field(default_factory=lambda: UnitState("not-found", "inactive"))
    stops: list[int] = field(default_factory=list)
    problem: str = ""
    stopped: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    def is_running(self) -> bool:
        return self.running

    def unit_state(self, unit: str) -> UnitState:
        if self.unit is None:
            raise GpuError(f"no answer about {unit}.", ["wait"], "container-unreachable")
        return self.unit

    def stop_unit(self, unit: str, limit_s: float) -> str:
        assert limit_s == 6
        self.stopped.append(unit)
        for pid in self.stops:
            self.world.die(pid)
        return self.problem

    def forget_failure(self, unit: str) -> str:
        self.forgotten.append(unit)
        return self.problem


def make_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path / "proc")
    monkeypatch.setattr(
        "ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_termination.send_signal", world.send_signal
    )
    return world


TERM, KILL = int(signal.SIGTERM), int(signal.SIGKILL)


def pids(rows: list[dict[str, Any]]) -> set[int]:
    return {row["pid"] for row in rows}


def none_of(_pid: int) -> None:
    """A step of the story whose result does not matter."""


def failure(reaper: Any) -> GpuError:
    with pytest.raises(GpuError) as caught:
        reaper.run()
    return caught.value
