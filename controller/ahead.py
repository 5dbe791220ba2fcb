"""Starts the next playbook ahead of time, so that Ansible's own start is over when the playbook is wanted.

Ansible needs half a second before its first task. During a measurement the controller is idle, so the next cell's
``restart.yml`` is started then and waits at a *gate*: a file that the controller holds locked. Opening the gate writes
one word and releases the lock. The kernel releases it too when the controller dies, but then the word is missing and
the playbook fails without having touched the target.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from controller.paths import make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from controller.playbooks import PlaybookRun
    from controller.sweep.ports import PlaybookRunner

GATE_VARIABLE = "restart_gate"
"""Extra variable of ``playbooks/restart.yml``: the gate file at which it waits."""
GATE_TASK = "Wait for the controller's word"
WORD = b"go"
JOIN_S = 0.05


class Gate:
    """A file locked by this process; whoever waits for a shared lock on it goes on when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        make_private(path.parent)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def open(self) -> None:
        """Let the playbook go on."""
        os.write(self._file, WORD)
        self.close()

    def close(self) -> None:
        """Release the lock; without :meth:`open` before, the playbook fails."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@dataclasses.dataclass(slots=True)
class _Waiting:
    """A playbook that has been started and waits at its gate."""

    playbook: str
    extra_vars: dict[str, Any]
    gate: Gate
    on_phase: Callable[[str], None] | None = None
    cancelled: Callable[[], bool] = lambda: False
    outcome: PlaybookRun | None = None
    error: BaseException | None = None
    thread: threading.Thread | None = None

    def is_for(self, playbook: str, extra_vars: Mapping[str, Any]) -> bool:
        return self.playbook == playbook and self.extra_vars == dict(extra_vars)

    def say_phase(self, phase: str) -> None:
        if self.on_phase:
            self.on_phase(phase)

    def is_cancelled(self) -> bool:
        return self.cancelled()

    def wait(self) -> None:
        # In small steps, so that a signal's handler runs in the main thread meanwhile.
        while self.thread is not None and self.thread.is_alive():
            self.thread.join(JOIN_S)


class AheadOfTime:
    """A runner of playbooks that can start one before it is wanted."""

    def __init__(self, playbooks: PlaybookRunner) -> None:
        self._playbooks = playbooks
        self._waiting: _Waiting | None = None

    def command(self, playbook: str, extra_vars: Mapping[str, Any], tags: Sequence[str] = ()) -> str:
        """Return the command line that does the same by hand."""
        return self._playbooks.command(playbook, extra_vars, tags)

    def prepare(self, playbook: str, *, directory: Path, extra_vars: Mapping[str, Any]) -> None:
        """Start a playbook that waits until :meth:`run` asks for the same one. It touches nothing until then."""
        self.discard()
        waiting = _Waiting(playbook, dict(extra_vars), Gate(directory / ".gate"))

        def drive() -> None:
            try:
                waiting.outcome = self._playbooks.run(
                    playbook,
                    directory=directory,
                    extra_vars=waiting.extra_vars | {GATE_VARIABLE: str(waiting.gate.path.resolve())},
                    on_phase=waiting.say_phase,
                    cancelled=waiting.is_cancelled,
                )
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that asks for the playbook
                waiting.error = error

        waiting.thread = threading.Thread(target=drive, name=f"ahead-{playbook}", daemon=True)
        waiting.thread.start()
        self._waiting = waiting

    def run(
        self,
        playbook: str,
        *,
        directory: Path,
        extra_vars: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        on_phase: Callable[[str], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PlaybookRun:
        """Run a playbook; the prepared one when it is the same, else a new one (a prepared one that differs ends).

        Raises:
            TargetError: as :meth:`controller.playbooks.Playbooks.run`.
        """
        waiting = self._waiting
        if waiting is None or tags or not waiting.is_for(playbook, extra_vars or {}):
            if playbook != "health":  # a look at the server leaves the next launch prepared
                self.discard()
            return self._playbooks.run(
                playbook, directory=directory, extra_vars=extra_vars, tags=tags, on_phase=on_phase, cancelled=cancelled
            )
        self._waiting = None
        waiting.on_phase, waiting.cancelled = on_phase, cancelled
        opened = time.monotonic()
        waiting.gate.open()
        waiting.wait()
        waiting.gate.path.unlink(missing_ok=True)
        if waiting.error is not None:
            raise waiting.error
        assert waiting.outcome is not None  # noqa: S101 - the thread ended without an error
        return dataclasses.replace(
            waiting.outcome,
            seconds=time.monotonic() - opened,
            tasks=tuple(task for task in waiting.outcome.tasks if task.task != GATE_TASK),
        )

    def discard(self) -> None:
        """End a prepared playbook that nobody will ask for."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        waiting.cancelled = lambda: True
        waiting.wait()
        waiting.gate.close()
        waiting.gate.path.unlink(missing_ok=True)
