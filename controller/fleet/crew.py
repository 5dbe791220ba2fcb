"""One process for each host: start it, talk to it, notice when it dies, end it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from controller.fleet.ports import FromHost, Leave, Left, Lost
from controller.fleet.worker import work
from controller.sweep.interrupt import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess
    from pathlib import Path

    from controller.fleet.ports import MakeRunner, ToHost

DIED = "its process died"
END_PATIENCE_S = 10.0
LEAVE_PATIENCE_S = 180.0
"""Stopping a server takes at most a minute; a host that cannot be reached may need SSH's time-outs as well."""


@dataclass(slots=True)
class Member:
    """The process of one host."""

    process: SpawnProcess
    connection: Connection
    left: bool = False
    deadline: float = 0.0
    """When a dismissed process is killed; 0 while it is wanted."""


class Crew:
    """The processes of all hosts. A message of the last kind (:class:`Left`) comes from each, even from a dead one."""

    def __init__(self, directory: Path, runners: Mapping[str, MakeRunner]) -> None:
        self._members: dict[str, Member] = {}
        # Not fork: the controller has threads, and a copy of it would keep their locks.
        context = multiprocessing.get_context("spawn")
        # A signal must not meet a process that is still importing; it takes signals when it can answer them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            for host, make in runners.items():
                ours, theirs = context.Pipe()
                process = context.Process(target=work, args=(theirs, directory, host, make), name=f"host {host}")
                process.start()
                theirs.close()
                self._members[host] = Member(process, ours)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def present(self) -> list[str]:
        """The hosts whose process has not left."""
        return [host for host, member in self._members.items() if not member.left]

    def tell(self, host: str, order: ToHost) -> None:
        """Send an order; a process that is gone is noticed by :meth:`messages`."""
        try:
            self._members[host].connection.send(order)
        except OSError:
            return

    def dismiss(self, host: str) -> None:
        """Have a host give up its launch, stop its server and leave; one that does not is killed after a while.

        The second call does nothing.
        """
        member = self._members[host]
        if member.left or member.deadline or member.process.pid is None:
            return
        member.deadline = time.monotonic() + LEAVE_PATIENCE_S
        self.tell(host, Leave())
        try:
            os.kill(member.process.pid, signal.SIGINT)
        except ProcessLookupError:
            return

    def messages(self, timeout_s: float) -> Iterator[tuple[str, FromHost]]:
        """Yield what the hosts have to say, after waiting for the first word at most so many seconds."""
        self._kill_the_stubborn()
        by_connection = {member.connection: host for host, member in self._members.items() if not member.left}
        if not by_connection:
            time.sleep(min(timeout_s, 0.05))
        for connection in wait(list(by_connection), timeout_s):
            host = by_connection[connection]  # type: ignore[index] # only connections are waited for
            try:
                message: FromHost = self._members[host].connection.recv()
            except (EOFError, OSError):
                self._members[host].left = True
                yield host, Lost(DIED)
                yield host, Left("")
                continue
            if isinstance(message, Left):
                self._members[host].left = True
            yield host, message

    def _kill_the_stubborn(self) -> None:
        for member in self._members.values():
            if not member.left and 0 < member.deadline < time.monotonic():
                member.process.kill()  # its connection ends with it, which :meth:`messages` sees

    def end(self) -> None:
        """Wait for the processes that have left, and kill what has not (a fault elsewhere ends the sweep)."""
        deadline = time.monotonic() + END_PATIENCE_S
        for member in self._members.values():
            member.connection.close()
            member.process.join(max(0.0, deadline - time.monotonic()) if member.left else 0.0)
            if member.process.is_alive():
                member.process.kill()
                member.process.join()
