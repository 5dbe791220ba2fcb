"""Follow the log of one launch: new bytes since the last look, and only a bounded part of it in memory."""

from __future__ import annotations

import collections
import os
from typing import TYPE_CHECKING, Deque, List, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import (
    LineAssembler,
    PhaseTracker,
    parse_stamp,
    tells_of_a_question,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_clock import LaunchClock

KEPT_LINES = 2000
"""Lines kept before the first fatal message, and again as many after it."""
CHUNK_BYTES = 1024 * 1024
HEAD_BYTES = 16 * 1024 * 1024
"""A start-up log is far smaller; what lies between head and end of a log that has served for days is not read."""


class LogFollower:
    """Reads a log from where it stopped the last time.

    Args:
        path: the log.
        tracker: is fed with every line of the launch.
        clock: of the launch; what an appended log holds from before its begin is left out.

    Attributes:
        modified_at: when the log grew last, seconds since the epoch; None without a log.
    """

    def __init__(self, path: Path, tracker: PhaseTracker, clock: LaunchClock) -> None:
        self._path = path
        self._tracker = tracker
        self._clock = clock
        self._assembler = LineAssembler()
        self._offset = 0
        self._inode: Optional[int] = None
        self._belongs: Optional[bool] = None
        self._before: Deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._since_fatal: List[str] = []
        self._asked_at: Optional[float] = None
        self.modified_at: Optional[float] = None

    def read(self) -> int:
        """Take in what was written since the last call and return the number of new bytes (0 also without a log)."""
        try:
            with self._path.open("rb") as log:
                status = os.fstat(log.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset = status.st_ino, 0
                    self._assembler = LineAssembler()
                self.modified_at = status.st_mtime
                taken = 0
                while self._offset < status.st_size:
                    if self._offset >= HEAD_BYTES and status.st_size - self._offset > CHUNK_BYTES:
                        self._offset = status.st_size - CHUNK_BYTES
                    log.seek(self._offset)
                    chunk = log.read(min(CHUNK_BYTES, status.st_size - self._offset))
                    if not chunk:
                        break
                    self._offset += len(chunk)
                    taken += len(chunk)
                    for line in self._assembler.feed(chunk):
                        self._line(line)
                return taken
        except OSError:
            return 0

    def finish(self) -> None:
        """Take in a last line without a line end: its writer is dead."""
        for line in self._assembler.rest():
            self._line(line)

    @property
    def advanced_at(self) -> Optional[float]:
        """When the log grew last by more than lines about who asked: those of our own health checks are among them."""
        if self._asked_at is None or self._assembler.pending:
            return self.modified_at
        # Else it is another clock's.
        possible = self._clock.is_possible(self._clock.unstepped(self._asked_at))
        return self._asked_at if possible else self.modified_at

    @property
    def lines(self) -> List[str]:
        """The lines of the launch, oldest first; the part around the first fatal message is always among them."""
        return [*self._before, *self._since_fatal]

    def _line(self, line: str) -> None:
        if self._belongs is not True:
            stamp, _message = parse_stamp(line)
            if stamp is not None:
                self._belongs = self._clock.unstepped(stamp.epoch_s) >= self._clock.started_at - 2
            if self._belongs is False:
                self._before.clear()
                return
        if not tells_of_a_question(line):
            self._asked_at = None
        elif self._asked_at is None:
            # The first one after work: the work was done by then, even if its last line has no stamp.
            stamp, _message = parse_stamp(line)
            self._asked_at = stamp.epoch_s if stamp is not None else None
        self._tracker.feed(line, self._clock.now_epoch_s, self._clock.unstepped)
        if not self._tracker.fatal:
            self._before.append(line)
        elif len(self._since_fatal) < KEPT_LINES:
            self._since_fatal.append(line)
