"""Signal exactly the process that was meant, never one that inherited its number."""

from __future__ import annotations

import os
import signal
from typing import Callable, Optional


def send_signal(
    pid: int, start_ticks: int, signal_number: int, read_start_ticks: Callable[[int], Optional[int]]
) -> bool:
    """Send a signal to the process that has this pid *and* this start time.

    The pidfd is opened first and the start time read afterwards: once both agree, the descriptor refers to that
    process whatever happens to the number. Where the kernel has no pidfd (Linux before 5.3, gVisor) the start time is
    read right before the signal; the window left is the time between two system calls.

    Args:
        pid: number in the caller's PID namespace.
        start_ticks: field 22 of /proc/PID/stat when the process was chosen.
        signal_number: for example ``signal.SIGTERM``.
        read_start_ticks: reads the current start time of a pid; None when there is no such process.

    Returns:
        False when that process is gone (its number may belong to another one, which is left alone).

    Raises:
        PermissionError: the caller may not signal the process.
    """
    if pid <= 1:
        raise ValueError(f"refuse to signal pid {pid}")
    try:
        descriptor = _open_pidfd(pid)
    except ProcessLookupError:
        return False
    try:
        if read_start_ticks(pid) != start_ticks:
            return False
        if descriptor is None or not hasattr(signal, "pidfd_send_signal"):
            os.kill(pid, signal_number)
        else:
            signal.pidfd_send_signal(descriptor, signal_number)
    except ProcessLookupError:
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def _open_pidfd(pid: int) -> Optional[int]:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:  # ENOSYS, EPERM of a seccomp filter, EINVAL: no pidfd here
        return None
