"""What a killed controller leaves behind: a note of what it was doing, and perhaps an Ansible that still runs.

``running.json`` in the sweep directory names the controller, the cell and Ansible's process. An ansible-playbook
survives its controller (ansible-runner lets it ignore a closed terminal), and would go on launching a server. It is
found by the note or, when the controller died before it could write, by the mark in its environment.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.exits import JournalError
from controller.playbooks import OWNER_VARIABLE, discard_private_data
from controller.private_file import write_private
from controller.process import boot_id, command_line, end, is_running, start_ticks, with_environment

if TYPE_CHECKING:
    from pathlib import Path

    from controller.lock import Holder

NAME = "running.json"
_MARKS = ("ansible-playbook", "AnsiballZ_", "ansiballz")
"""Ansible's processes and the modules it runs on this machine; the server that a module started is not among them."""


@dataclass(slots=True)
class RunningNote:
    """The note of a running sweep, rewritten at each change and removed at an orderly end."""

    directory: Path
    sweep_id: str
    cell: str = ""
    _child: Mapping[str, Any] | None = field(default=None, init=False)
    """With the start time that it had when it was noted: its number may be another process's by the next change."""
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    """A playbook that starts ahead of time is noted by a thread of its own."""

    def update(self, *, cell: str | None = None, child: int | None = None) -> None:
        """Note which cell is at work, or which process runs Ansible.

        Raises:
            JournalError: the note of a cell cannot be written, and without it nothing may be launched.
        """
        try:
            with self._turn:
                if cell is not None:
                    self.cell = cell
                if child is not None:
                    self._child = {"pid": child, "start_ticks": start_ticks(child)}
                write_private(self.directory / NAME, json.dumps(self._content()))
        except OSError as error:
            if cell is None:
                return  # Ansible's process is found by its mark too, and stopping the server must not fail here
            raise JournalError(
                f"cannot write {self.directory / NAME}: {error.strerror}; what was measured is safe. "
                "Free some space, then resume."
            ) from error

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "sweep_id": self.sweep_id,
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "boot_id": boot_id(),
            "cell": self.cell,
        }
        return content if self._child is None else content | {"child": self._child}

    def remove(self) -> None:
        """Remove the note: nothing of the sweep runs any more."""
        (self.directory / NAME).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Leftover:
    """What was found of a sweep whose controller is gone."""

    sweep_id: str
    cell: str
    directory: Path
    processes: Mapping[int, int]

    @property
    def sentence(self) -> str:
        """What the operator is told."""
        cell = f" cell {self.cell}" if self.cell else ""
        whose = self.sweep_id if self.sweep_id.startswith("deployment") else f"sweep {self.sweep_id}"
        return f"the server of {whose}{cell} may still be running; its controller is gone"


def find(directory: Path) -> Leftover | None:
    """Return what a dead controller left of the sweep in ``directory``; None when it ended orderly or still runs."""
    try:
        note = json.loads((directory / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(note, dict) or alive(note):
        return None
    return Leftover(str(note.get("sweep_id", "?")), str(note.get("cell", "")), directory, _processes(directory, note))


def left_by(predecessor: Holder | None) -> Leftover | None:
    """Return what is left of the controller that held a node before (:attr:`controller.lock.NodeLock.predecessor`)."""
    return find(predecessor.place) if predecessor is not None else None


def alive(note: Mapping[str, Any]) -> bool:
    """Return whether the controller that wrote the note still runs."""
    return _still_runs(note, note)


def _still_runs(process: object, note: Mapping[str, Any]) -> bool:
    """Return whether a process of the note (its id and start time) still runs."""
    if not isinstance(process, Mapping) or not isinstance(pid := process.get("pid"), int):
        return False
    return is_running(pid, process.get("start_ticks"), str(note.get("boot_id", "")))


def finish(leftover: Leftover) -> list[int]:
    """End what Ansible still runs of the sweep and remove its files; return the processes that were ended."""
    ended = end(dict(leftover.processes))
    again = _processes(leftover.directory, {})  # a dying playbook may have started one more module
    ended += end(again) if again else []
    discard_private_data(leftover.directory)
    return ended


def _processes(directory: Path, note: Mapping[str, Any]) -> dict[int, int]:
    found: dict[int, int] = {}
    child: Any = note.get("child")
    if _still_runs(child, note):
        found[child["pid"]] = child["start_ticks"]
    for pid in with_environment(OWNER_VARIABLE, str(directory.resolve())):
        words = command_line(pid)
        ticks = start_ticks(pid)
        if ticks is not None and any(mark in word for word in words for mark in _MARKS):
            found[pid] = ticks
    return found
