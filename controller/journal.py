"""Append-only JSON lines, flushed to disk a record at a time: the only state of a sweep that counts.

A record is written whole or not at all as far as the file system allows: when the disk fills up, the torn line is cut
off again; when the machine dies, the reader ignores a torn last line. Several processes may append to one journal (one
for each host of a fleet): a lock of the kernel, which ends with its holder, keeps their records apart.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from controller.exits import InputError, JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

Record = dict[str, Any]
_TAIL = 65536


@dataclass(frozen=True, slots=True)
class JournalContent:
    """What a journal holds: its records, and how many bytes of it are whole lines."""

    records: tuple[Record, ...]
    whole_bytes: int
    torn: bool


def read_journal(path: Path) -> JournalContent:
    """Read every record; a torn last line is left out and reported.

    Raises:
        InputError: there is no journal.
        JournalError: a line before the last is not a record, so the file was damaged and cannot be trusted.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path.parent} is not a sweep directory: it has no {path.name}.") from None
    except OSError as error:
        raise JournalError(f"cannot read the journal {path}: {error.strerror}.") from error
    records: list[Record] = []
    position = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        last = number >= len(lines) - 1
        complete = number < len(lines)
        if not line:
            position += int(complete)
            continue
        record = _parse(line)
        if record is None or not complete:
            if last:
                return JournalContent(tuple(records), position, torn=True)
            raise JournalError(f"line {number} of the journal {path} is damaged; move the file away to start anew.")
        records.append(record)
        position += len(line) + 1
    return JournalContent(tuple(records), position, torn=False)


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "kind" in record else None


class Journal:
    """A writer of a journal file. Use as a context manager."""

    def __init__(
        self, path: Path, *, fields: Mapping[str, object] | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """Open ``path`` for appending (0600), cutting off a torn last line of an earlier writer.

        Args:
            path: The file.
            fields: What every record of this writer carries, such as its host.
            clock: Seconds since the epoch.

        Raises:
            JournalError: the file cannot be opened or repaired.
        """
        self.path = path
        self._fields = dict(fields or {})
        self._clock = clock
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(f"cannot open the journal {path}: {error.strerror}.") from error
        try:
            with self._alone():
                if path.is_file() and (content := read_journal(path)).torn:
                    os.ftruncate(self._descriptor, content.whole_bytes)
        except OSError as error:
            os.close(self._descriptor)
            raise JournalError(f"cannot repair the journal {path}: {error.strerror}.") from error
        except JournalError:
            os.close(self._descriptor)
            raise

    def append(self, kind: str, **fields: object) -> Record:
        """Write one record and wait until it is on disk. Returns the record as written.

        Raises:
            JournalError: nothing of the record is in the file; what was there before is untouched.
        """
        record: Record = {"kind": kind, "at": round(self._clock(), 3), **self._fields, **fields}
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        with self._alone():
            before = os.fstat(self._descriptor).st_size
            try:
                before = self._without_torn_line(before)
                written = os.write(self._descriptor, line)
                while written < len(line):  # a short write is how a full disk announces itself
                    written += os.write(self._descriptor, line[written:])
                _flush(self._descriptor)
            except OSError as error:
                self._cut(before)
                raise JournalError(
                    f"cannot write the journal {self.path}: {error.strerror}; the records before are safe. "
                    "Free some space, then resume."
                ) from error
        return record

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other writers of the file out.

        Raises:
            JournalError: the file system has no locks.
        """
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise JournalError(
                f"cannot lock the journal {self.path}: {error.strerror}. Put it on a file system that has locks."
            ) from error
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _without_torn_line(self, size: int) -> int:
        """Cut off what another writer left half written when it was killed; return the size of the whole lines."""
        if size == 0 or os.pread(self._descriptor, 1, size - 1) == b"\n":
            return size
        end = size
        while end > 0:
            start = max(0, end - _TAIL)
            newline = os.pread(self._descriptor, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        os.ftruncate(self._descriptor, end)
        return end

    def _cut(self, size: int) -> None:
        """Remove a torn line. The reader tolerates one, so a failure here is not worth a second error."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError:
            return

    def close(self) -> None:
        """Close the file; every record is on disk already."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _flush(descriptor: int) -> None:
    """Force the record to disk, where the file is one that can be forced."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != 22:  # EINVAL: a device or a pipe has no disk behind it
            raise
