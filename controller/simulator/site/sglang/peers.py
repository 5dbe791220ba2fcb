"""The ranks of one model on several machines: they meet at ``--dist-init-addr``, and when one dies the others die too.

The real ranks open a store on rank 0 (torch's ``TCPStore``), then a connection between any two of them (Gloo). An idle
scheduler waits in a broadcast over these, so the end of one rank is an exception in every other within a moment:
``Connection closed by peer``. Here every rank keeps one connection to rank 0, which passes on whose connection closed.
NCCL's own connections and the timeouts of collectives are not simulated: a peer that is stopped, not dead, is waited
for without end, as the real one is until a watchdog ends it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .log import Log
    from .node import Node

MEETING_S = 600.0
"""torch's default for a process group over NCCL (``default_pg_nccl_timeout``); ``--dist-timeout`` is another."""
RETRY_S = 0.05
LEAVING_S = 0.3
"""A server that is shut down tells its ranks one after the other; the end of one is no failure to the next."""
_SHUTDOWN = b"shutdown\n"
_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound


class DistNetworkError(RuntimeError):
    """Nobody answers at the meeting point."""


class DistStoreError(RuntimeError):
    """Not all ranks came to the meeting point."""


DistNetworkError.__module__ = DistStoreError.__module__ = "torch.distributed"


def ranks_of_a_node(fields: dict[str, Any]) -> int:
    """Return how many tensor-parallel ranks each node has, by resolved ``ServerArgs``."""
    return int(fields["tp_size"] // fields["nnodes"])


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[host]:port`` (``NetworkAddress.parse``)."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Peers:
    """What one rank has of the others. With one node there is nothing to do.

    Args:
        fields: resolved ``ServerArgs``. The connection comes from ``--host`` where that is one address; the real one
            chooses the address of the host's name, or that of the interface in ``GLOO_SOCKET_IFNAME``.
        node: the simulated machine, which says how fast time passes while loading.
        rank: tensor-parallel rank among all machines.
        log: this rank's log.
    """

    def __init__(self, fields: dict[str, Any], node: Node, rank: int, log: Log) -> None:
        self._several = fields["nnodes"] > 1
        # Without a meeting point rank 0 opens one on a port of its own, where nobody finds it.
        self._address = split_address(fields["dist_init_addr"] or f"{fields['host']}:0")
        self._world = fields["tp_size"]
        self._host = fields["host"]
        self._wait_s = node.loading(float(fields["dist_timeout"] or MEETING_S), at_least=1.0)
        self._told_s = float(fields["dist_timeout"] or MEETING_S)
        self._rank = rank
        self._log = log
        self._launcher = os.getppid()
        self._leaving = threading.Event()
        self._connections: list[socket.socket] = []

    def meet(self) -> None:
        """Wait for all ranks of all machines; from then on a rank that is lost ends this one.

        Raises:
            DistNetworkError: rank 0 does not answer in time.
            DistStoreError: a rank did not come in time.
        """
        if not self._several:
            return
        self._connections = self._wait_for_all() if self._rank == 0 else [self._find_first()]
        threading.Thread(target=self._watch, daemon=True, name="peers").start()

    def leave(self) -> None:
        """End in order. Rank 0 passes its request to shut down on to all ranks, those of other machines included."""
        self._leaving.set()
        if self._rank == 0:
            self._tell(_SHUTDOWN)

    def _tell(self, message: bytes) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.sendall(message)

    def _wait_for_all(self) -> list[socket.socket]:
        deadline = time.monotonic() + self._wait_s
        came: list[socket.socket] = []
        with socket.create_server(self._address, backlog=self._world) as meeting:
            while len(came) < self._world - 1:
                meeting.settimeout(max(deadline - time.monotonic(), 0.001))
                try:
                    came.append(meeting.accept()[0])
                except TimeoutError:
                    raise DistStoreError(
                        f"Timed out after {self._told_s + 1:.0f} seconds waiting for clients. "
                        f"{len(came) + 1}/{self._world} clients joined."
                    ) from None
        for connection in came:
            connection.settimeout(None)
            with contextlib.suppress(OSError):
                connection.sendall(b"go\n")
        return came

    def _find_first(self) -> socket.socket:
        deadline = time.monotonic() + self._wait_s
        source = None if self._host in _EVERYWHERE else (self._host, 0)
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                connection = socket.create_connection(self._address, 1.0, source_address=source)
                connection.settimeout(None)
                if not connection.recv(3):
                    raise _closed(self._address)
                return connection
            time.sleep(RETRY_S)
        host, port = self._address
        raise DistNetworkError(
            f"The client socket has timed out after {self._told_s * 1000:.0f}ms while trying to connect to "
            f"({host}, {port})."
        )

    def _watch(self) -> None:
        lost = _first_lost(self._connections)
        if lost is None:
            os._exit(0)
        if self._leaving.wait(LEAVING_S):
            return
        self._tell(f"{lost[0]}:{lost[1]}\n".encode())
        try:
            raise _closed(lost)
        except RuntimeError:
            self._log(f"Scheduler hit an exception: {traceback.format_exc()}")
        os.kill(self._launcher, signal.SIGQUIT)


def _closed(address: tuple[str, int]) -> RuntimeError:
    return RuntimeError(
        f"[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer "
        f"[{address[0]}]:{address[1]}"
    )


def _first_lost(connections: list[socket.socket]) -> tuple[str, int] | None:
    """Return the address of the rank that is gone once a connection ends or rank 0 says so; None at a shutdown."""
    addresses = {connection: connection.getpeername()[:2] for connection in connections}
    connection = select.select(connections, [], [])[0][0]
    told = b""
    with contextlib.suppress(OSError):
        told = connection.recv(256)
    if told == _SHUTDOWN:
        return None
    return split_address(told.decode("ascii").split("\n", 1)[0]) if told else addresses[connection]
