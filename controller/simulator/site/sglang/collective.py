"""Ranks wait for each other: a collective does not end while a peer is stopped."""

from __future__ import annotations

import time
from pathlib import Path

LOOK_EVERY_S = 0.1
"""Looking is a few reads in /proc; a decode step is often shorter."""
_STOPPED = frozenset("Tt")
_NAME = "(sglang::schedul"
"""The kernel keeps 15 characters of a process name."""


class Collective:
    """What the schedulers of one launcher have in common.

    Args:
        launcher: process id of their parent.
    """

    def __init__(self, launcher: int) -> None:
        self._children = Path(f"/proc/{launcher}/task/{launcher}/children")
        self._looked_at = 0.0

    def wait(self) -> None:
        """Return once no rank is stopped."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_S:
            return
        while self._a_rank_is_stopped():
            time.sleep(LOOK_EVERY_S)
        self._looked_at = time.monotonic()

    def _a_rank_is_stopped(self) -> bool:
        try:
            children = self._children.read_text().split()
        except OSError:
            return False
        return any(_is_stopped_scheduler(pid) for pid in children)


def _is_stopped_scheduler(pid: str) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    name, _, rest = stat.rpartition(") ")
    return rest[:1] in _STOPPED and name.endswith(_NAME)
