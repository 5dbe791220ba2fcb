"""Process titles as ``setproctitle`` makes them, without that package.

``ps`` and ``/proc/PID/cmdline`` show the memory in which the kernel put the argument vector when the program
started. Writing there is the only way to change what they show; its bounds are the fields ``arg_start`` and
``arg_end`` of ``/proc/self/stat``. The rest of the area is filled with zero bytes, so a title never grows. The short
name (``comm``, what ``top`` and ``/proc/PID/stat`` show) is set by ``prctl(PR_SET_NAME)`` and cut to 15 bytes by the
kernel.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


def argument_area() -> tuple[int, int]:
    """Return the first address of this process's argument vector and the address after its last byte."""
    stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    # The second field is the name in parentheses and may hold spaces: count from the last parenthesis on.
    # proc(5): arg_start and arg_end are the fields 48 and 49, the field after the parenthesis is number 3.
    fields = stat.rpartition(")")[2].split()
    return int(fields[45]), int(fields[46])


def set_process_title(title: str) -> None:
    """Show ``title`` as the command line and the name of this process."""
    name = title.encode()
    start, end = argument_area()
    if end > start > 0:
        room = end - start
        visible = name[: room - 1]
        ctypes.memmove(start, visible + bytes(room - len(visible)), room)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NAME, name[:15], 0, 0, 0)


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when its parent ends (SGLang: ``kill_itself_when_parent_died``)."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
