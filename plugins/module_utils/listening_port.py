"""Find out which process listens on a TCP port, from /proc/net/tcp{,6} and /proc/PID/fd."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, List, Set

_LISTEN = "0A"
AGAIN_S = 0.1
"""A process that ends lets go of its descriptors first and of the port a moment later."""


@dataclass(frozen=True)
class PortState:
    """Who listens on a port.

    Attributes:
        listening: whether anybody does.
        owners: pid -> name of the processes that hold the listening socket, as far as they can be seen from here.
    """

    listening: bool
    owners: Dict[int, str]


def listening_inodes(table: str, port: int, host: str = "") -> Set[int]:
    """Return the socket inodes that listen on a port according to the text of /proc/net/tcp or tcp6.

    Those of another address of this machine are left out when `host` is an IPv4 address of one interface.
    """
    inodes = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTEN:
            continue
        address, _, number = fields[1].rpartition(":")
        if int(number, 16) == port and _meets(address, host):
            inodes.add(int(fields[9]))
    return inodes


def _meets(address: str, host: str) -> bool:
    """Whether a listener (its address in hexadecimal, as the kernel writes it) is in the way of a server on `host`."""
    try:
        wanted = ipaddress.IPv4Address(host)
    except ValueError:
        return True  # a name, an IPv6 address or none: any listener may be
    if len(address) != 8 or not int(address, 16) or wanted.is_unspecified:
        return True
    return ipaddress.IPv4Address(bytes.fromhex(address)[::-1]) == wanted


def look_up(port: int, candidates: Iterable[int] = (), proc: str = "/proc", host: str = "") -> PortState:
    """Return who listens on a port.

    Args:
        port: TCP port.
        candidates: pids to look at first; the rest of /proc is read only when none of them owns the socket.
        proc: where procfs is mounted.
        host: address of the server that wants the port; listeners on other addresses do not count then.
    """
    pids = list(candidates)
    state = _look(port, pids, proc, host)
    if state.listening and not state.owners:
        time.sleep(AGAIN_S)
        state = _look(port, pids, proc, host)
    return state


def _look(port: int, candidates: Iterable[int], proc: str, host: str) -> PortState:
    inodes: Set[int] = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            inodes |= listening_inodes(Path(proc, "net", name).read_text(encoding="ascii"), port, host)
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
