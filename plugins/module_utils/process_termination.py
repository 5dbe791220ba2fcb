"""End processes: SIGTERM the launchers, then the rest, then SIGKILL; each to exactly the process that was chosen."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_signals import send_signal

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

POLL_S = 0.05
FOLLOW_S = 0.5
"""How long children get after their launcher: SGLang's die by PR_SET_PDEATHSIG at once (utils/common.py, 0.5.15)."""

WITH_PARENT = "parent"
"""Reported instead of a signal for a process that went with its launcher."""


@dataclass(frozen=True)
class Ended:
    """A process that was to end and the last signal it got (``TERM``, ``KILL``, or ``WITH_PARENT``)."""

    process: ProcessFacts
    signal: str


@dataclass(frozen=True)
class Survivor:
    """A process that outlived SIGKILL. ``wait_channels`` are the kernel functions its threads in state D wait in."""

    process: ProcessFacts
    state: str
    wait_channels: Sequence[str]

    @property
    def uninterruptible(self) -> bool:
        """Whether a thread sits in state D: further signals change nothing."""
        return self.state == "D"


@dataclass(frozen=True)
class Outcome:
    """Who ended, and who did not."""

    ended: List[Ended]
    survivors: List[Survivor]


class Terminator:
    """Ends processes of one process table.

    Args:
        table: where the processes are read.
        grace_s: seconds for SIGTERM.
        kill_wait_s: seconds for SIGKILL.
        clock: monotonic seconds.
        sleep: waits seconds.
    """

    def __init__(
        self,
        table: ProcessTable,
        grace_s: float,
        kill_wait_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.table = table
        self.grace_s = grace_s
        self.kill_wait_s = kill_wait_s
        self.clock = clock
        self.sleep = sleep

    def terminate(self, victims: Sequence[ProcessFacts], first: Sequence[ProcessFacts]) -> Outcome:
        """End all ``victims``; ``first`` (the launchers among them) get SIGTERM alone for up to half the grace time.

        One in state D with an earlier SIGKILL pending gets no further signal, only the time to end.

        Raises:
            PermissionError: a process may not be signalled.
        """
        sent = {victim.pid: "KILL" for victim in victims if self._kill_is_stuck(victim)}
        within_reach = [victim for victim in victims if victim.pid not in sent]
        first = [process for process in first if process.pid not in sent]
        start = self.clock()
        self._signal(first, signal.SIGTERM, sent)
        if len(first) < len(within_reach):
            self._wait_for_launchers(within_reach, first, start + self.grace_s / 2)
            self._signal([v for v in within_reach if v.pid not in sent], signal.SIGTERM, sent)
        self._wait(within_reach, start + self.grace_s)
        self._signal(within_reach, signal.SIGKILL, sent)
        self._wait(victims, self.clock() + self.kill_wait_s)
        remaining = self._alive(victims)
        gone = [victim for victim in victims if victim not in remaining]
        ended = [Ended(victim, sent.get(victim.pid, WITH_PARENT)) for victim in gone]
        return Outcome(ended, [self.survivor(process) for process in remaining])

    def survivor(self, process: ProcessFacts) -> Survivor:
        """Why a process is still there: the states of all its threads, not only of its leader."""
        threads = self.table.threads(process.pid)
        stuck = [thread for thread in threads if thread.state == "D"]
        if stuck:
            return Survivor(process, "D", sorted({thread.wait_channel or "unknown" for thread in stuck}))
        current = self.table.read(process.pid)
        return Survivor(process, current.state if current is not None else process.state, [])

    def _kill_is_stuck(self, process: ProcessFacts) -> bool:
        threads = self.table.threads(process.pid)
        return any(thread.state == "D" and thread.kill_pending for thread in threads)

    def _signal(self, processes: Iterable[ProcessFacts], number: signal.Signals, sent: Dict[int, str]) -> None:
        for process in processes:
            if not self.table.is_alive(process.pid, process.start_ticks):
                continue
            if send_signal(process.pid, process.start_ticks, number, self.table.start_ticks):
                sent[process.pid] = number.name[3:]

    def _alive(self, processes: Iterable[ProcessFacts]) -> List[ProcessFacts]:
        return [process for process in processes if self.table.is_alive(process.pid, process.start_ticks)]

    def _wait(self, processes: Sequence[ProcessFacts], deadline: float) -> None:
        while self._alive(processes) and self.clock() < deadline:
            self.sleep(POLL_S)

    def _wait_for_launchers(
        self, victims: Sequence[ProcessFacts], first: Sequence[ProcessFacts], deadline: float
    ) -> None:
        self._wait(first, deadline)
        if not self._alive(first):
            self._wait(victims, min(deadline, self.clock() + FOLLOW_S))
