"""Find out which process listens on a TCP port, from /proc/net/tcp{,6} and /proc/PID/fd."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, List, Set

_LISTEN = "0A"


@dataclass(frozen=True)
class PortState:
    """Who listens on a port.

    Attributes:
        listening: whether anybody does.
        owners: pid -> name of the processes that hold the listening socket, as far as they can be seen from here.
    """

    listening: bool
    owners: Dict[int, str]


def listening_inodes(table: str, port: int) -> Set[int]:
    """Return the socket inodes that listen on a port according to the text of /proc/net/tcp or tcp6."""
    inodes = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTEN:
            continue
        if int(fields[1].rpartition(":")[2], 16) == port:
            inodes.add(int(fields[9]))
    return inodes


def look_up(port: int, candidates: Iterable[int] = (), proc: str = "/proc") -> PortState:
    """Return who listens on a port.

    Args:
        port: TCP port.
        candidates: pids to look at first; the rest of /proc is read only when none of them owns the socket.
        proc: where procfs is mounted.
    """
    inodes: Set[int] = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            inodes |= listening_inodes(Path(proc, "net", name).read_text(encoding="ascii"), port)
    if not inodes:
        return PortState(listening=False, owners={})
    owners = _owners(inodes, candidates, proc)
    if not owners:
        owners = _owners(inodes, _all_pids(proc), proc)
    return PortState(listening=True, owners=owners)


def _all_pids(proc: str) -> List[int]:
    return [int(name) for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208 - pathlib costs three times as much


def _owners(inodes: Set[int], pids: Iterable[int], proc: str) -> Dict[int, str]:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    owners = {}
    for pid in pids:
        directory = f"{proc}/{pid}/fd"
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(directory):  # noqa: PTH208 - as above
                if _link(f"{directory}/{descriptor}") in wanted:
                    owners[pid] = Path(proc, str(pid), "comm").read_text(encoding="utf-8", errors="replace").strip()
                    break
    return owners


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - as above
    except OSError:
        return ""


def can_bind(host: str, port: int) -> bool:
    """Say whether a server could listen on this address now; sees listeners whose owner is invisible from here."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
