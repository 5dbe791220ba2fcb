"""Simulated GPU memory: files locked by the process that holds the memory.

``GPU_DIR/gpuN/PID-NAMESPACE.alloc`` is sparse, its size is the number of bytes held, and its maker keeps a POSIX lock
on it. Whoever wants to know asks the kernel (``F_GETLK``) who owns the lock, and gets the PID as seen from its own
namespace. The kernel drops the lock when the owner dies, however it dies: no daemon, no stale state. POSIX locks, not
``flock``: those would be inherited by children and outlive their owner. ``*.leak`` files are memory that no process
owns.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid


def lock_owner(path: str) -> int | None:
    """Return the PID that locks a file (0: not visible from this namespace), None when it is not locked."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def _own_name() -> str:
    # Containers may share the GPUs, and each has a process of the same number.
    namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - one link, followed once
    return f"{os.getpid()}-{namespace}.alloc"


def used_by_others(gpu: Path) -> int:
    """Return the MiB of one GPU held by other processes and by leaks; remove files whose owner has died.

    A process never sees its own locks here, as ``F_GETLK`` reports only those that would stand in its way. Closing a
    file one has locked drops the lock, so its own files must not be opened: they carry its PID in their names.
    """
    used = 0
    for entry in sorted(gpu.iterdir()) if gpu.is_dir() else []:
        if entry.suffix == ".leak":
            used += entry.stat().st_size // MIB
        elif entry.suffix == ".alloc" and entry.name != _own_name():
            if lock_owner(str(entry)) is None:
                entry.unlink(missing_ok=True)
            else:
                used += entry.stat().st_size // MIB
    return used


class GpuMemory:
    """Memory of one GPU held by this process.

    Attributes:
        total_mib: capacity of the GPU.
        held_mib: what this process holds now.
    """

    def __init__(self, gpu_dir: Path, index: int, total_mib: int) -> None:
        self.directory = gpu_dir / f"gpu{index}"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.total_mib = total_mib
        self.held_mib = 0
        # Named only once it is locked: nobody may take the file of a process that is just starting for a stale one.
        unnamed = self.directory / f".{_own_name()}.new"
        self._descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        os.fchmod(self._descriptor, 0o666)  # servers of other users ask who holds it, as they may with real devices
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(self.directory / _own_name())

    def hold(self, mib: float) -> None:
        """Hold exactly so much memory from now on (0 when it is negative)."""
        self.held_mib = max(int(mib), 0)
        os.ftruncate(self._descriptor, self.held_mib * MIB)

    def free_mib(self) -> int:
        """Return what nobody holds."""
        return self.total_mib - self.held_mib - used_by_others(self.directory)
