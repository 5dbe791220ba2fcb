"""Read what the system checks look at: /dev, /proc, limits, directories, the port. Reads only."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_files import (
    LaunchFileError,
    LaunchFiles,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.listening_port import look_up
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_read_driver import text_of
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_system_checks import (
    DeviceFacts,
    Place,
    PortFacts,
)

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

_NODE = re.compile(r"^nvidia(\d+|ctl|-uvm)$")


def read_devices(root: str = "/") -> DeviceFacts:
    """The device files of the driver, and its numbers in /proc/devices."""
    majors: Dict[str, int] = {}
    for line in text_of(Path(root, "proc/devices")).splitlines():
        words = line.split()
        if len(words) == 2 and words[1].startswith("nvidia") and words[0].isdigit():
            majors[words[1]] = int(words[0])
    nodes: Dict[str, Tuple[int, str]] = {}
    for path in sorted(Path(root, "dev").glob("nvidia*")):
        if _NODE.match(path.name):
            nodes[f"/dev/{path.name}"] = (os.major(path.stat().st_rdev), _open_error(path))
    return DeviceFacts(majors, nodes)


def read_shared_memory(path: str = "/dev/shm") -> Tuple[Optional[int], int, List[str], int]:  # noqa: S108 - it is the subject
    """Size and free bytes of /dev/shm, and NCCL's files in it with their bytes."""
    try:
        state = os.statvfs(path)
    except OSError:
        return None, 0, [], 0
    names, total = [], 0
    for entry in sorted(Path(path).glob("nccl-*")):
        with contextlib.suppress(OSError):
            total += entry.stat().st_size
            names.append(entry.name)
    return state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize, names, total


def read_limits() -> Tuple[int, int]:
    """Hard limits of open files and of locked bytes, -1 for none."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1], resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]


def read_place(path: str, user: str, mounts: str = "/proc/mounts") -> Place:
    """A directory as its nearest existing ancestor shows it; whether another user may write there is unknown."""
    existing = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links that do not exist yet
    while not existing.exists():
        existing = existing.parent
    state = os.statvfs(existing)
    writable = os.access(existing, os.W_OK | os.X_OK) if user in ("", _own_name()) else None
    return Place(path, str(existing), writable, state.f_bavail * state.f_frsize, _filesystem(existing, mounts))


def cache_directories(environment: Mapping[str, object], user: str) -> List[str]:
    """Where Triton and FlashInfer keep compiled kernels for this environment and user."""
    home = str(environment.get("HOME") or _home(user))
    return [
        str(environment.get("TRITON_CACHE_DIR") or f"{home}/.triton/cache"),
        f"{environment.get('FLASHINFER_WORKSPACE_BASE') or home}/.cache/flashinfer",
    ]


def live_leader(state_dir: str, table: ProcessTable) -> Optional[int]:
    """The pid of the recorded launch when its leader lives."""
    try:
        record = LaunchFiles(state_dir).read()
    except LaunchFileError:
        return None
    if record is None or record.boot_id != table.boot_id():
        return None
    return record.pid if table.is_alive(record.pid, record.start_ticks) else None


def read_port(host: str, port: int, state_dir: str, unit: str, table: ProcessTable) -> PortFacts:
    """Who listens where the server will. Ours: of the recorded launch's session, or in the unit's cgroup."""
    state = look_up(port, proc=table.root, host=host)
    leader = live_leader(state_dir, table)
    ours, sglang = False, False
    for pid in state.owners:
        process = table.read(pid)
        command = text_of(Path(table.root, str(pid), "cmdline"))
        in_unit = bool(unit) and f"/{unit}" in text_of(Path(table.root, str(pid), "cgroup"))
        ours = ours or in_unit or (process is not None and leader is not None and process.session == leader)
        sglang = sglang or "sglang" in command
    owners = [f"{name} (pid {pid})" for pid, name in state.owners.items()]
    return PortFacts(state.listening, owners, ours, sglang)


def _open_error(path: Path) -> str:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _filesystem(path: Path, mounts: str) -> str:
    best, kind = "", ""
    for line in text_of(Path(mounts)).splitlines():
        fields = line.split()
        inside = len(fields) > 2 and f"{path}/".startswith(f"{fields[1].rstrip('/')}/")
        if inside and len(fields[1]) >= len(best):
            best, kind = fields[1], fields[2]
    return kind


def _home(user: str) -> str:
    try:
        return pwd.getpwnam(user).pw_dir if user else str(Path.home())
    except KeyError:
        return f"/home/{user}"


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""
