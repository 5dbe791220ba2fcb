"""How much processor time a process used within a window that is only known afterwards."""

from __future__ import annotations

import bisect
import os
import threading
import time
from pathlib import Path

EVERY_S = 0.02
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CpuWatch:
    """Reads the processor time of a process every 20 ms, from a thread, until it is stopped or the process ends.

    Times are ``time.perf_counter()``, which on Linux all processes of a machine share. The kernel counts in steps of
    10 ms, so a window of a second is right to about 2 %.
    """

    def __init__(self, pid: int) -> None:
        self._stat = Path(f"/proc/{pid}/stat")
        self._moments: list[float] = []
        self._used: list[float] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._thread.join()

    def share(self, begin: float, end: float) -> float:
        """Return the processor time used between two moments as a share of one core; NaN when nothing was seen."""
        if end <= begin or not self._moments:
            return float("nan")
        return (self._used_at(end) - self._used_at(begin)) / (end - begin)

    def _used_at(self, moment: float) -> float:
        return self._used[max(0, bisect.bisect_right(self._moments, moment) - 1)]

    def _watch(self) -> None:
        while not self._stopped.wait(EVERY_S):
            try:
                fields = self._stat.read_text().rpartition(")")[2].split()
            except OSError:
                return
            self._moments.append(time.perf_counter())
            self._used.append((int(fields[11]) + int(fields[12])) / TICKS_PER_S)
