"""Checks of the machine or container that the server runs in (pure; read by `preflight_read_system`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_check import (
    WARNING,
    Check,
    failed,
    passed,
    unknown,
    warned,
)

MIB = 1 << 20
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
# SGLang raises its own soft limit to this (srt/utils, set_ulimit), which needs as much hard limit.
WANTED_FILES = 65535
_WANTED_MEMLOCK = 64 * MIB
_NCCL_BUFFER, _NCCL_CHANNELS = 4 * MIB, 16  # NCCL's default buffer; its usual number of channels on PCIe
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "beegfs", "fuse.sshfs", "fuse.glusterfs")


@dataclass(frozen=True)
class DeviceFacts:
    """NVIDIA device files here.

    Attributes:
        majors: lines of /proc/devices that name nvidia: name -> major number.
        nodes: path -> (major number, why it cannot be opened or empty).
    """

    majors: Dict[str, int] = field(default_factory=dict)
    nodes: Dict[str, Tuple[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A directory that will be written to: its nearest existing ancestor, and what is known of that."""

    path: str
    exists_at: str
    writable: Optional[bool]
    free_bytes: int
    filesystem: str


@dataclass(frozen=True)
class PortFacts:
    """Who listens on the server's port: name and pid, whether it is this server or an earlier launch of it."""

    listening: bool
    owners: List[str] = field(default_factory=list)
    ours: bool = False
    sglang: bool = False


def check_devices(facts: DeviceFacts, wanted: int) -> Check:
    """Whether the device files are there, may be opened, and have the driver's numbers."""
    name = "gpu-devices"
    if not facts.majors and not facts.nodes:
        return unknown(name, "no NVIDIA driver is seen here")
    remedy = "pass the device through again (pct set <CT> --dev0 /dev/nvidia-uvm ...) and restart the container"
    numbered = [path for path in facts.nodes if path.replace("/dev/nvidia", "").isdigit()]
    problems = [f"{path} is missing" for path in ("/dev/nvidiactl", "/dev/nvidia-uvm") if path not in facts.nodes]
    if len(numbered) < wanted:
        problems.append(f"{len(numbered)} /dev/nvidiaN, the server wants {wanted}")
    problems += [f"{path} cannot be opened: {why}" for path, (_, why) in facts.nodes.items() if why]
    major = facts.majors.get("nvidia-uvm")
    node = facts.nodes.get("/dev/nvidia-uvm")
    if node and major is not None and node[0] != major:
        problems.append(f"/dev/nvidia-uvm has major number {node[0]}, the driver's is {major}")
    if node and facts.majors and major is None:
        problems.append("the kernel module nvidia_uvm is not loaded")
        remedy = "modprobe nvidia_uvm on the host, then restart the container"
    if problems:
        return failed(name, "; ".join(problems), remedy)
    return passed(name, f"{len(numbered)} GPUs, control and nvidia-uvm")


def check_shared_memory(size: Optional[int], free: int, ranks: int, environment: Mapping[str, object]) -> Check:
    """Whether /dev/shm holds NCCL's buffers when copies have to go through it; bytes."""
    name = "shared-memory"
    if size is None:
        return unknown(name, "there is no /dev/shm", WARNING)
    channels = _number(environment.get("NCCL_MAX_NCHANNELS"), _NCCL_CHANNELS)
    needed = ranks * channels * _number(environment.get("NCCL_BUFFSIZE"), _NCCL_BUFFER) if ranks > 1 else 0
    detail = f"/dev/shm has {free // MIB} of {size // MIB} MiB free, {ranks} ranks can want {needed // MIB} MiB"  # noqa: S108 - it is the subject
    if free < needed:
        return warned(name, detail, "make it larger (mount -o remount,size=...), or lower NCCL_BUFFSIZE")
    return passed(name, detail, WARNING)


def check_stale_segments(names: List[str], total: int, *, server_lives: bool) -> Check:
    """Whether a crash has left NCCL's files in /dev/shm; `total` bytes."""
    name = "stale-shared-memory"
    if names and not server_lives:
        detail = f"{len(names)} nccl-* files in /dev/shm ({total // MIB} MiB), and no server of ours runs"
        return warned(name, detail, "remove them when no other program uses NCCL here: rm /dev/shm/nccl-*")
    return passed(name, "no files of a crashed NCCL in /dev/shm", WARNING)


def check_limits(files: int, memlock: int, *, unit: bool) -> Check:
    """Whether open files and locked memory suffice; hard limits, -1 for none. A unit brings its own."""
    name = "resource-limits"
    if unit:
        return passed(name, "the unit sets LimitNOFILE and LimitMEMLOCK itself", WARNING)
    low = [f"nofile {files} (wanted {WANTED_FILES})"] if 0 <= files < WANTED_FILES else []
    low += [f"memlock {memlock // MIB} MiB (wanted 64)"] if 0 <= memlock < _WANTED_MEMLOCK else []
    if low:
        return warned(name, f"hard limits are low: {', '.join(low)}", "raise them in /etc/security/limits.d")
    return passed(name, f"nofile {files}, memlock {'unlimited' if memlock < 0 else f'{memlock // MIB} MiB'}", WARNING)


def check_disk(places: List[Place], needed_mib: int) -> Check:
    """Whether logs and state can be written."""
    name = "disk"
    problems = [f"{place.path} cannot be written" for place in places if place.writable is False]
    problems += [
        f"{place.path} has {place.free_bytes // MIB} MiB free"
        for place in places
        if place.free_bytes < needed_mib * MIB
    ]
    if problems:
        return failed(name, "; ".join(problems), f"make room ({needed_mib} MiB) or choose another directory")
    return passed(name, ", ".join(f"{place.path}: {place.free_bytes // MIB} MiB free" for place in places))


def check_caches(places: List[Place]) -> Check:
    """Whether Triton and FlashInfer can keep compiled kernels, on a local disk."""
    name = "kernel-caches"
    blocked = [place.path for place in places if place.writable is False]
    remote = [f"{place.path} ({place.filesystem})" for place in places if place.filesystem in _NETWORK]
    if blocked:
        return failed(name, f"cannot write {', '.join(blocked)}", "set TRITON_CACHE_DIR and FLASHINFER_WORKSPACE_BASE")
    if remote:
        return warned(name, f"on a network file system: {', '.join(remote)}", "set TRITON_CACHE_DIR to a local disk")
    if any(place.writable is None for place in places):
        return unknown(name, "they belong to another user than the one that asks")
    return passed(name, ", ".join(place.path for place in places))


def check_port(facts: PortFacts, port: int) -> Check:
    """Whether the server's port is free, or its own."""
    name = "port"
    if not facts.listening:
        return passed(name, f"port {port} is free")
    who = ", ".join(facts.owners) or "a process that cannot be seen from here"
    if facts.ours:
        return passed(name, f"port {port} is this server's ({who})")
    if facts.sglang:
        return warned(name, f"port {port} is held by an SGLang that is not managed: {who}", "run controller clean")
    return failed(name, f"port {port} is held by {who}", "stop that program, or set sglang_server_port")


def check_exposure(host: str, *, keyed: bool) -> Check:
    """Whether everybody who reaches the machine may use the server."""
    name = "open-address"
    if keyed:
        return passed(name, "requests need a key")
    if host in EVERYWHERE:
        return warned(
            name,
            f"the server will listen on {host} and take requests without a key",
            "set sglang_server_api_key, or sglang_server_host to an address that only its clients reach",
        )
    return passed(name, f"no key, but it listens on {host} only")


def _number(value: object, default: int) -> int:
    text = str(value or "")
    return int(text) if text.isdigit() else default
