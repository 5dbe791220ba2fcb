"""Ranks wait for each other: a collective does not end while a peer is stopped."""

from __future__ import annotations

import time
from pathlib import Path

from .process_tree import stat_of

LOOK_EVERY_S = 0.1
"""Looking is a few reads in /proc; a decode step is often shorter."""
_STOPPED = frozenset("Tt")
_NAME = "sglang::schedul"
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
        known = [stat_of(int(pid)) for pid in children]
        return any(one is not None and one[0] == _NAME and one[1][0] in _STOPPED for one in known)
