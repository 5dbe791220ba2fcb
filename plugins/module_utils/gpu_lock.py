"""One cleaner at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Iterator

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError

POLL_S = 0.1


@contextlib.contextmanager
def exclusive(path: str, wait_s: float) -> Iterator[None]:
    """Hold a lock file. The kernel drops the lock when the process ends, so a killed cleaner leaves nothing behind.

    Args:
        path: lock file; created when missing, never removed (removing it would let two cleaners lock two files).
        wait_s: seconds to wait for another cleaner.

    Raises:
        GpuError: the file cannot be opened, or another cleaner still works after ``wait_s``.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise GpuError(
            f"The lock file {path} cannot be opened: {error.strerror}.",
            ["run as root (become)", "set another lock_file"],
        ) from error
    try:
        _lock(descriptor, path, wait_s)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise GpuError(
                    f"Another cleaning holds {path} for more than {wait_s:g} s.",
                    [f"fuser -v {path} shows which process it is", "wait for it to end and run again"],
                ) from None
            time.sleep(POLL_S)
        else:
            return
