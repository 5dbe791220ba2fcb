"""Which process is which (Linux): a process id alone may name another process a minute later."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def boot_id() -> str:
    """Return what identifies the present boot: after another one, process ids and start times begin anew."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def start_ticks(pid: int) -> int | None:
    """Return the start time of a living process (field 22 of ``/proc/PID/stat``), None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the command in parentheses may hold spaces
    if fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def is_running(pid: int, ticks: int | None, boot: str = "") -> bool:
    """Return whether the very process that was noted with this start time still runs.

    Args:
        pid: Process id.
        ticks: Its start time, as :func:`start_ticks` gave it.
        boot: The boot in which it was noted; empty in notes of earlier versions, which count as of this boot.
    """
    return boot in ("", boot_id()) and ticks is not None and start_ticks(pid) == ticks


def command_line(pid: int) -> list[str]:
    """Return the arguments of a process, empty when it is gone or not ours to read."""
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [part.decode(errors="replace") for part in data.split(b"\0") if part]


def with_environment(name: str, value: str) -> Iterator[int]:
    """Yield the processes that were started with ``name=value`` in their environment (ours to read, not ourselves)."""
    wanted = f"{name}={value}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            yield int(entry.name)


def end(pids: dict[int, int], grace_s: float = 5.0) -> list[int]:
    """End processes given as ``{pid: start ticks}``: SIGTERM, ``grace_s`` seconds, SIGKILL. Return who was ended."""
    ended = [pid for pid, ticks in pids.items() if _send(pid, ticks, signal.SIGTERM)]
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and any(start_ticks(pid) == pids[pid] for pid in ended):
        time.sleep(0.05)
    for pid in ended:
        _send(pid, pids[pid], signal.SIGKILL)
    return ended


def _send(pid: int, ticks: int, number: signal.Signals) -> bool:
    """Signal a process through a pidfd, so that the identity checked is the one signalled."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if start_ticks(pid) != ticks:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
