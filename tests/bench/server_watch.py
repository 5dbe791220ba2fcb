"""Watches the launches of one node from outside, without asking them anything: processes and their logs only.

    python3 -m tests.bench.server_watch NODE FILE

keeps what it has seen in FILE until it is ended by a signal.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

EVERY_S = 0.05
READY = "The server is fired up and ready to roll!"
ASKED_TO_END = "SIGTERM received"


def leaders(node: Path) -> list[int]:
    """Return the session leaders that run the launcher with this node's interpreter."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if (
                words[0].startswith(bytes(node / "ml-env"))
                and b"sglang.launch_server" in words
                and _stat(int(entry.name))[3] == entry.name
            ):
                found.append(int(entry.name))
    return found


def started_s(pid: int) -> float:
    """Return when a process was started, seconds since the machine was (CLOCK_BOOTTIME)."""
    return int(_stat(pid)[19]) / os.sysconf("SC_CLK_TCK")


def start_ticks(pid: int) -> int:
    """Return when a process was started as /proc says it."""
    return int(_stat(pid)[19])


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: 0 is the state, 3 the session, 19 the start."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@dataclasses.dataclass(slots=True)
class Life:
    """One launch. Times of day in seconds; None until it happened.

    Attributes:
        pid: Of the launcher.
        started: Start of the process, by the kernel's clock.
        ready: When its log said that it serves.
        asked: When its log said that it was asked to end.
        gone: When the launcher had gone.
    """

    pid: int
    started: float
    ready: float | None = None
    asked: float | None = None
    gone: float | None = None


class ServerWatch:
    """Notes the moments of every launch while it is open."""

    def __init__(self, node: Path, before: Iterable[Life] = ()) -> None:
        self._node = node
        self._logs: dict[int, TextIO] = {}
        self._before = tuple(before)  # what another watch saw
        self.lives: dict[int, Life] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()
        for log in self._logs.values():
            log.close()

    @property
    def seen(self) -> list[Life]:
        """Return every launch so far, the other watch's first."""
        return [*self._before, *self.lives.values()]

    def loading_s(self, begin: float, end: float) -> float:
        """Return how long the launch that started between two moments took until it served."""
        lives = [life for life in self.seen if begin <= life.started <= end and life.ready]
        return sum((life.ready or 0.0) - life.started for life in lives)

    def stopping_s(self, begin: float, end: float) -> float:
        """Return how long the launch that went between two moments took to go once it was asked to."""
        lives = [life for life in self.seen if life.gone and life.asked and begin <= life.gone <= end]
        return sum((life.gone or 0.0) - (life.asked or 0.0) for life in lives)

    def _watch(self) -> None:
        while not self._stopped.wait(EVERY_S):
            for pid in leaders(self._node):
                if pid not in self.lives:
                    self._meet(pid)
            for life in self.lives.values():
                if life.gone is None:
                    self._look(life)

    def _meet(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            started = time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - started_s(pid))
            # Opened through the process: its own file, whatever becomes of the name.
            self._logs[pid] = Path(f"/proc/{pid}/fd/1").open(errors="replace")  # noqa: SIM115 - until the end
            self.lives[pid] = Life(pid, started)

    def _look(self, life: Life) -> None:
        text = self._logs[life.pid].read()
        now = time.time()
        if life.ready is None and READY in text:
            life.ready = now
        if life.asked is None and ASKED_TO_END in text:
            life.asked = now
        try:
            gone = _stat(life.pid)[0] in "ZX"
        except OSError:
            gone = True
        if gone:
            life.gone = now


def write_lives(lives: Iterable[Life], file: Path) -> None:
    """Replace the file by what is known of these launches."""
    part = file.with_name(file.name + ".part")
    part.write_text("".join(json.dumps(dataclasses.asdict(life)) + "\n" for life in lives))
    part.replace(file)


def read_lives(file: Path) -> list[Life]:
    """Return what ``write_lives`` kept."""
    return [Life(**json.loads(line)) for line in file.read_text().splitlines()]


def main() -> None:
    """Watch until ended by a signal."""
    node, file = map(Path, sys.argv[1:])
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with ServerWatch(node) as watch:
        while not ended.wait(1.0):
            write_lives(watch.seen, file)
    write_lives(watch.seen, file)


if __name__ == "__main__":
    main()
