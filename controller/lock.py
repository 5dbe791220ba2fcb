"""One sweep per node: a lock that the kernel releases when its holder dies, and a note that says who holds it.

The note stays behind when the holder is killed. That is wanted: it is how the next command learns that a sweep died
and that its server may still be running.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from filelock import FileLock, Timeout

from controller.exits import InputError, LockedError
from controller.paths import make_private, state_directory
from controller.private_file import write_private
from controller.process import boot_id, is_running, start_ticks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class Holder:
    """Who took the lock: process, sweep and since when (epoch seconds)."""

    pid: int
    start_ticks: int
    sweep_id: str
    directory: str
    since: float
    node: str
    work: str = "sweep"
    """What it does: ``sweep``, ``deployment``, or one playbook, ``stop`` or ``clean``."""
    workplace: str = ""
    """Where the note of the running controller is; empty in notes of earlier versions: the directory."""
    boot_id: str = ""
    """Boot of the machine that its process id belongs to; empty in notes of earlier versions."""

    @property
    def place(self) -> Path:
        """The folder with the note of the running controller."""
        return Path(self.workplace or self.directory)

    @property
    def alive(self) -> bool:
        """Whether this very process still runs (the process id alone may have been given to another)."""
        return is_running(self.pid, self.start_ticks, self.boot_id)

    @property
    def is_playbook(self) -> bool:
        """Whether it runs one playbook alone, in a directory that is gone afterwards."""
        return self.work in ("stop", "clean")

    @property
    def since_text(self) -> str:
        """The time as an operator reads it."""
        return datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def node_key(hosts: Mapping[str, object]) -> str:
    """Return the name of the lock of a node from what identifies it (address, container number)."""
    text = json.dumps(hosts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class NodeLock:
    """The lock of one node. Use as a context manager around everything that launches or stops its server."""

    def __init__(self, key: str, node: str, directory: Path | None = None) -> None:
        self._node = node
        self._directory = directory or state_directory() / "locks"
        self._note = self._directory / f"{key}.json"
        self._lock = FileLock(self._directory / f"{key}.lock", mode=0o600)
        self.predecessor: Holder | None = None
        """Who held the node before and did not give it back: dead, or about to be; what it left may still be there."""

    def acquire(
        self,
        sweep_id: str,
        sweep_directory: Path,
        *,
        work: str = "sweep",
        workplace: Path | None = None,
        patience_s: float = 0.0,
    ) -> Self:
        """Take the lock or say who holds it.

        Args:
            sweep_id: Of the sweep that takes it.
            sweep_directory: Where it is kept, for whoever asks.
            work: What is done with the node.
            workplace: Where it notes what it is doing, when that is not the sweep directory.
            patience_s: How long to wait for a holder that is about to end.

        Raises:
            LockedError: another process holds it.
            InputError: the state directory cannot be written.
        """
        try:
            make_private(self._directory)
            self._lock.acquire(timeout=patience_s)
        except Timeout:
            raise LockedError(self._refusal()) from None
        except OSError as error:
            raise self._unwritable(error) from error
        self.predecessor = self.holder()
        now = Holder(
            os.getpid(),
            start_ticks(os.getpid()) or 0,
            sweep_id,
            str(sweep_directory),
            time.time(),
            self._node,
            work,
            str(workplace or ""),
            boot_id(),
        )
        try:
            self._write(now)
        except OSError as error:
            self._lock.release()
            raise self._unwritable(error) from error
        return self

    def release(self) -> None:
        """Give the lock back and remove the note: nothing of this sweep runs any more."""
        self._note.unlink(missing_ok=True)
        self._lock.release()

    def abandon(self) -> None:
        """Give the lock back but leave the note: something of this sweep may still run on the node."""
        self._lock.release()

    def restore(self, holder: Holder) -> None:
        """Give the lock back and put the note of a dead predecessor back: what it left is still there."""
        with contextlib.suppress(OSError):  # our own note stays then, and leads to what is still there as well
            self._write(holder)
        self._lock.release()

    def holder(self) -> Holder | None:
        """Return who wrote the note, living or dead; None without a readable note."""
        return read_holder(self._note)

    def _write(self, holder: Holder) -> None:
        write_private(self._note, json.dumps(asdict(holder)))

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"cannot lock the node in {self._directory}: {error.strerror}.")

    def _refusal(self) -> str:
        holder = self.holder()
        if holder is None:
            return f"another sweep holds {self._node}; wait for it to end."
        if holder.is_playbook:
            return f"{holder.work} is at work on {self._node}: process {holder.pid}; wait for it to end."
        return (
            f"another {holder.work} holds {self._node}: process {holder.pid} in {holder.directory}, since "
            f"{holder.since_text}; wait for it to end, or interrupt it with: kill -INT {holder.pid}"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock.is_locked:
            self.release()

    def __enter__(self) -> Self:
        return self


def read_holder(note: Path) -> Holder | None:
    """Read one note; None when it is missing or unreadable."""
    try:
        return Holder(**json.loads(note.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def holders(directory: Path | None = None) -> list[Holder]:
    """Return every note in the state directory, oldest first."""
    folder = directory or state_directory() / "locks"
    found = [holder for note in sorted(folder.glob("*.json")) if (holder := read_holder(note))]
    return sorted(found, key=lambda holder: holder.since)
