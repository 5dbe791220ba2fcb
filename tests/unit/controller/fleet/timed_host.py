"""A host whose cells take a known time: real processes, a real journal, no Ansible. It can die at any moment."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.exits import LockedError, TargetError
from controller.fleet.ports import CellEnd
from controller.sweep.entries import record_cell
from controller.sweep.ports import SilentWatcher
from controller.sweep.state import CellState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controller.journal import Journal
    from controller.plan import Cell
    from controller.sweep.interrupt import Interrupts
    from controller.sweep.ports import Watcher


@dataclass(frozen=True)
class TimedHost:
    """What a host does.

    Attributes:
        seconds: Length of a cell.
        spread: Cells differ by so much around it, relative; the same cell always takes the same.
        dies_after_s: Its process is killed (SIGKILL) so many seconds after it was taken.
        unreachable_at: The n-th launch finds no host any more (counted from 0).
        failing_from: From the n-th launch on everything fails.
        locked_at: At the n-th launch it refuses the whole sweep.
        identity: What it is made of.
    """

    seconds: float = 0.01
    spread: float = 0.0
    dies_after_s: float | None = None
    unreachable_at: int | None = None
    failing_from: int | None = None
    never_opens: bool = False
    locked_at: int | None = None
    identity: Mapping[str, str] = field(default_factory=dict)

    def length(self, cell_id: str) -> float:
        return self.seconds * (1 + self.spread * random.Random(cell_id).uniform(-1, 1))

    def __call__(self, journal: Journal, interrupts: Interrupts, watcher: Watcher) -> TimedRunner:
        return TimedRunner(self, journal, interrupts, watcher)


class TimedRunner:
    def __init__(self, host: TimedHost, journal: Journal, interrupts: Interrupts, watcher: Watcher) -> None:
        self._host = host
        self._journal = journal
        self._interrupts = interrupts
        self._watcher = watcher
        self._launches = 0

    def open(self) -> Mapping[str, str]:
        if self._host.never_opens:
            raise TargetError("no route to host")
        if self._host.dies_after_s is not None:
            timer = threading.Timer(self._host.dies_after_s, os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()
        self._journal.append("host", state="joined", identity=dict(self._host.identity))
        return self._host.identity

    def launch(self, cells: Sequence[tuple[Cell, int]]) -> Iterator[CellEnd]:
        for position, (cell, attempt) in enumerate(cells, start=1):
            if self._interrupts.asked:
                return
            self._watcher.cell_started(cell, position, len(cells), attempt)
            end = self._one(cell, attempt)
            self._watcher.cell_ended(cell, end.state, end.sentence, self._host.seconds)
            yield end
            if end.fatal or end.state == "abandoned":
                return

    def _one(self, cell: Cell, attempt: int) -> CellEnd:
        number, self._launches = self._launches, self._launches + 1
        record_cell(self._journal, cell, attempt, CellState.LAUNCHING)
        record_cell(self._journal, cell, attempt, CellState.READY)
        record_cell(self._journal, cell, attempt, CellState.MEASURING)
        if number == self._host.locked_at:
            raise LockedError("another sweep holds it.")
        if number == self._host.unreachable_at:
            record_cell(self._journal, cell, attempt, CellState.FAILED, failure={"class": "unreachable"})
            return CellEnd(cell.cell_id, "failed", "no route to host", fatal=True)
        if self._host.failing_from is not None and number >= self._host.failing_from:
            time.sleep(self._host.seconds)
            record_cell(self._journal, cell, attempt, CellState.FAILED, failure={"class": "oom"})
            return CellEnd(cell.cell_id, "failed", "GPU 3 is full.")
        deadline = time.monotonic() + self._host.length(cell.cell_id)
        while (left := deadline - time.monotonic()) > 0 and not self._interrupts.asked:
            time.sleep(min(left, 0.05))
        state = CellState.ABANDONED if self._interrupts.asked else CellState.DONE
        record_cell(self._journal, cell, attempt, state, s=self._host.seconds)
        return CellEnd(cell.cell_id, state.value)

    def close(self) -> str:
        self._journal.append("stopped")
        return ""


class Heard:
    """A fleet's watcher that keeps what is said."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.added = 0
        self.ended: list[tuple[str, str, str]] = []

    def sweep_started(self, *_: object) -> None:
        pass

    def more_to_do(self, count: int) -> None:
        self.added += count

    def note(self, text: str) -> None:
        self.notes.append(text)

    def on(self, host: str) -> Watcher:
        return _HeardHost(self, host)


class _HeardHost(SilentWatcher):
    def __init__(self, heard: Heard, host: str) -> None:
        self._heard = heard
        self._host = host

    def cell_ended(self, cell: Cell, state: str, text: str, seconds: float) -> None:
        del text, seconds
        self._heard.ended.append((self._host, cell.cell_id, state))

    def note(self, text: str) -> None:
        self._heard.notes.append(f"{self._host}: {text}")
