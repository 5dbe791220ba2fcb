"""Who a process belongs to (pure). Only the class *ours* may ever be signalled.

The test is never a process name: names are set by the process itself, and another container runs the same programs.
Names only *spare* (system services).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import FrozenSet, Iterable, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts, cgroup_components

OURS = "ours"
FOREIGN = "foreign"
SYSTEM = "system"

SYSTEM_NAMES = frozenset(
    {
        "nvidia-persistenced", "nv-fabricmanager", "nv-hostengine", "dcgmi", "dcgm-exporter", "nvidia_gpu_exporter",
        "nvidia-gpu-exporter", "nvidia-powerd", "nvidia-smi", "nvtop", "Xorg", "Xwayland", "gnome-shell",
    }
)  # fmt: skip
"""Services and monitors that keep GPU devices open without running a model."""

_KERNEL_NAMES = frozenset(name[:15] for name in SYSTEM_NAMES)


@dataclass(frozen=True)
class ContainerOwnership:
    """Ours is what lives in container ``vmid``: the cgroup path *and* the PID namespace of the container's init say so.

    ``init`` is None while the container is stopped: then nothing is ours.
    """

    vmid: int
    init: Optional[ProcessFacts]

    def is_ours(self, process: ProcessFacts) -> bool:
        """Both tests agree, and the process is not the container's init (its death would stop the container)."""
        return (
            self.init is not None
            and process.pid != self.init.pid
            and process.pid_namespace != ""
            and process.pid_namespace == self.init.pid_namespace
            and container_of(process) == str(self.vmid)
        )


@dataclass(frozen=True)
class SessionOwnership:
    """Ours is what belongs to the session of a recorded launch (bare metal, simulated node)."""

    members: FrozenSet[int]

    def is_ours(self, process: ProcessFacts) -> bool:
        """The process is a member of a recorded launch's session; never PID 1."""
        return process.pid in self.members and process.pid != 1


def container_of(process: ProcessFacts) -> str:
    """The Proxmox container number in the cgroup path; "" outside of one.

    Whole components from the root: ``/lxc/1290`` is not 129, and ``/lxc/140/ns/lxc/129`` is a guest of 140.
    """
    components = cgroup_components(process.cgroup)
    return components[1] if len(components) >= 2 and components[0] == "lxc" else ""


def in_unit(process: ProcessFacts, unit: str) -> bool:
    """Whether the process runs in the cgroup of a systemd unit."""
    return unit != "" and unit in cgroup_components(process.cgroup)


def find_init(processes: Iterable[ProcessFacts], vmid: int) -> Optional[ProcessFacts]:
    """The init of a container: PID 1 of the outermost namespace inside the container's cgroup."""
    inits = [p for p in processes if container_of(p) == str(vmid) and p.namespace_pid == 1 and p.namespace_depth >= 2]
    return min(inits, key=lambda p: (p.namespace_depth, p.start_ticks), default=None)


def is_system(process: ProcessFacts) -> bool:
    """Whether the process is a driver service, a monitor or a display server."""
    # The kernel's own name field ends after 15 bytes.
    return process.name in _KERNEL_NAMES or PurePosixPath(process.title).name in SYSTEM_NAMES


def classify(process: ProcessFacts, ownership: ContainerOwnership | SessionOwnership) -> str:
    """``SYSTEM``, ``OURS`` or ``FOREIGN``."""
    if is_system(process):
        return SYSTEM
    return OURS if ownership.is_ours(process) else FOREIGN


def owner_label(process: ProcessFacts) -> str:
    """Who a process belongs to, for people: ``container 129``, ``VM 104``, ``host (dcgm.service)``, ``host``."""
    container = container_of(process)
    if container:
        return f"container {container}"
    components = cgroup_components(process.cgroup)
    if len(components) >= 2 and components[0] == "qemu.slice" and components[1].endswith(".scope"):
        return f"VM {components[1][: -len('.scope')]}"
    unit = next((c for c in reversed(components) if c.endswith((".service", ".scope"))), "")
    return f"host ({unit})" if unit else "host"
