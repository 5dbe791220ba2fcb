"""How long a launch has lasted, by a clock that nobody sets; and what a step of the other clock did to its stamps."""

from __future__ import annotations

import os
import time
from typing import Optional

STEP_S = 5.0
"""A clock that is off by less was disciplined, not set."""


class LaunchClock:
    """The time since one launch.

    The wall clock may be set while a server loads (NTP after a boot, an operator, a resumed virtual machine). The
    kernel notes the start of a process in ticks since boot, and that clock only ever goes forward.

    Args:
        started_at: begin of the launch in seconds since the epoch, as the wall clock said then.
        start_ticks: field 22 of /proc/PID/stat; 0 when it is not known or of another boot, then the wall clock counts.
    """

    def __init__(self, started_at: float, start_ticks: int) -> None:
        self.started_at = started_at
        self._begin_s: Optional[float] = start_ticks / os.sysconf("SC_CLK_TCK") if start_ticks > 0 else None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the launch."""
        if self._begin_s is None:
            return time.time() - self.started_at
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self._begin_s

    @property
    def step_s(self) -> float:
        """By how many seconds the wall clock was set since the launch (negative: back), 0 when it was not."""
        step_s = time.time() - self.started_at - self.elapsed_s
        return step_s if abs(step_s) > STEP_S else 0.0

    @property
    def now_epoch_s(self) -> float:
        """What the wall clock would say if nobody had set it since the launch."""
        return self.started_at + self.elapsed_s

    def unstepped(self, epoch_s: float) -> float:
        """Return a stamp of the wall clock as if nobody had set it since the launch.

        A stamp that cannot be of this launch as it stands is taken for one from after the step.
        """
        step_s = self.step_s
        if not step_s or self.is_possible(epoch_s) or not self.is_possible(epoch_s - step_s):
            return epoch_s
        return epoch_s - step_s

    def is_possible(self, epoch_s: float) -> bool:
        """Say whether a stamp, of a resolution of one second, lies between the launch and now."""
        return self.started_at - 2 <= epoch_s <= self.now_epoch_s + 1
