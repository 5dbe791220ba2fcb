"""Write a file so that a reader, or a machine that loses power, sees the old bytes or the new ones and nothing between.

The new bytes go into a temporary file of the same directory, which is synced and renamed over the old name; then the
directory is synced. A run that dies in between leaves a temporary file, which the next run removes while it holds the
directory's lock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING, Iterator, List, Optional

if TYPE_CHECKING:
    from pathlib import Path

_TEMPORARY_TAG = "sglang_ops"
_LOCK_POLL_S = 0.05
# NFS refuses an exclusive lock on a directory, other file systems know no locks at all: then the rename alone protects.
_NO_LOCKS_HERE = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class FileWriteError(Exception):
    """A file could not be written; the message is one sentence that names the file and what to do."""


@contextlib.contextmanager
def directory_lock(directory: Path, timeout_s: float = 30.0) -> Iterator[None]:
    """Hold the exclusive lock (flock) of a directory, so that two runs do not change its files at once.

    Raises:
        FileWriteError: another run has held the lock for `timeout_s` seconds, or the directory cannot be opened.
    """
    with _sentence(directory):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise FileWriteError(
                        f"another run has been changing files in {directory} for {timeout_s:g} s: "
                        "wait for it, then run again."
                    ) from None
                time.sleep(_LOCK_POLL_S)
            except OSError as error:
                if error.errno not in _NO_LOCKS_HERE:
                    raise FileWriteError(f"cannot lock {directory}: {error.strerror}.") from error
                break
        yield
    finally:
        os.close(descriptor)


def remove_leftovers(path: Path) -> List[str]:
    """Remove temporary files that an interrupted write of `path` left; call it while holding the directory's lock."""
    leftovers = sorted(path.parent.glob(f".{path.name}.{_TEMPORARY_TAG}-*.tmp"))
    for leftover in leftovers:
        with _sentence(leftover):
            leftover.unlink()
    return [str(leftover) for leftover in leftovers]


def replace_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Put `data` under the name `path`.

    Mode and owner are those of the file that was there, else `mode` and the caller's.
    A symbolic link at `path` is replaced by a regular file; what it pointed to is not touched.

    Raises:
        FileWriteError: the directory cannot be written, or the owner cannot be kept.
    """
    with _sentence(path), _temporary(path, data, _status(path), mode) as temporary:
        temporary.replace(path)
        sync_directory(path.parent)


def keep_copy(path: Path, copy: Path) -> None:
    """Keep what `path` is now under the name `copy`: a link as the same link, a file with bytes, mode and owner.

    An existing `copy` stays as it is, so that the first original is never lost.

    Raises:
        FileWriteError: the directory cannot be written.
    """
    with _sentence(copy), contextlib.suppress(FileExistsError):
        if path.is_symlink():
            copy.symlink_to(path.readlink())
        else:
            with _temporary(path, path.read_bytes(), path.stat(), 0o644) as temporary:
                os.link(temporary, copy)  # unlike a rename, this never overwrites
        sync_directory(copy.parent)


def move_over(source: Path, destination: Path) -> None:
    """Rename `source` (a link stays a link) over `destination`.

    Raises:
        FileWriteError: the directory cannot be written.
    """
    with _sentence(destination):
        source.replace(destination)
        sync_directory(destination.parent)


def remove_file(path: Path) -> None:
    """Remove a file that may be missing.

    Raises:
        FileWriteError: the directory cannot be written.
    """
    with _sentence(path), contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make renames in a directory last over a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _temporary(path: Path, data: bytes, like: Optional[os.stat_result], mode: int) -> Iterator[Path]:
    """A synced temporary file beside `path`; it is gone afterwards, renamed or removed."""
    temporary = path.with_name(f".{path.name}.{_TEMPORARY_TAG}-{os.getpid()}-{time.monotonic_ns()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if like is not None:
                if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                mode = stat.S_IMODE(like.st_mode)
            os.fchmod(descriptor, mode)
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _status(path: Path) -> Optional[os.stat_result]:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _sentence(path: Path) -> Iterator[None]:
    """Turn an operating system's error into a sentence with the path and the remedy."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        remedy = {
            errno.EACCES: "run as a user who may write there",
            errno.EPERM: "run as the file's owner or as root (owner and mode are kept)",
            errno.EROFS: "mount it writable or work on a copy in a writable directory",
            errno.ENOSPC: "free some space there",
        }.get(error.errno or 0, "check the directory")
        raise FileWriteError(f"cannot write {path}: {error.strerror}; {remedy}.") from error
