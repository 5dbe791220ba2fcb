"""Killing a process and all that descend from it, by /proc instead of psutil."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .log import Log


def stat_of(pid: int) -> tuple[str, list[str]] | None:
    """Return a process's name (15 characters at most) and what /proc/PID/stat says after it; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    before, _, after = stat.rpartition(")")
    return before.partition("(")[2], after.split()


def parent_of(pid: int) -> int | None:
    """Return a process's parent, None when it is gone or a zombie."""
    known = stat_of(pid)
    return None if known is None or known[1][0] == "Z" else int(known[1][1])


def descendants(pid: int) -> list[int]:
    """Return all living processes below one, parents before their children."""
    parents = {int(name): parent_of(int(name)) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208
    found, generation = [], [pid]
    while generation:
        generation = [child for child, parent in parents.items() if parent in generation]
        found += generation
    return found


def kill_process_tree(log: Log, include_parent: bool = True) -> None:
    """Kill this process's descendants and itself with SIGKILL (``kill_process_tree``, srt/utils/common.py).

    This is why a server that failed cleanly ends with status 137: it kills itself last.
    """
    own = os.getpid()
    log(f"kill_process_tree called: parent_pid={own}, include_parent={include_parent}, pid={own}")
    for pid in descendants(own):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if include_parent:
        os.kill(own, signal.SIGKILL)
