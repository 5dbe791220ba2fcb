"""The files of a launch in the state directory: its record, its exit status, its lock, and its log beside them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Iterator, List, Optional, Sequence, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.atomic_file import replace_file
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_record import (
    EXIT_FILE_NAME,
    FILE_NAME,
    LOCK_FILE_NAME,
    LaunchRecord,
    parse_record,
)

_LOCK_POLL_S = 0.1


class LaunchFileError(Exception):
    """A file of the launch cannot be used; the message is one sentence."""


class LaunchFiles:
    """The launch files of one state directory."""

    def __init__(self, state_dir: str) -> None:
        self.directory = Path(state_dir)

    @contextlib.contextmanager
    def lock(self, timeout_s: float) -> Iterator[None]:
        """Hold the lock of the state directory; the kernel drops it when the holder ends.

        Raises:
            LaunchFileError: the directory cannot be made or written, or another run holds the lock for `timeout_s`.
        """
        try:
            self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            descriptor = os.open(self.directory / LOCK_FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LaunchFileError(
                f"cannot write the state directory {self.directory} ({error.strerror}); "
                "set sglang_server_state_dir to a directory that this user may write"
            ) from error
        try:
            deadline = time.monotonic() + timeout_s
            while not _try_lock(descriptor):
                if time.monotonic() >= deadline:
                    raise LaunchFileError(
                        f"another run is starting or stopping the server ({self.directory / LOCK_FILE_NAME} has been "
                        f"locked for {timeout_s:g} s); wait for it, then run again"
                    )
                time.sleep(_LOCK_POLL_S)
            yield
        finally:
            os.close(descriptor)

    def read(self) -> Optional[LaunchRecord]:
        """Return the record of the last launch, None when there is none.

        Raises:
            LaunchFileError: the record cannot be read or understood.
        """
        path = self.directory / FILE_NAME
        try:
            return parse_record(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LaunchFileError(
                f"cannot read {path} ({error.strerror}); run as the user who started the server"
            ) from error
        except ValueError as error:
            raise LaunchFileError(f"{path}: {error}") from error

    def write(self, record: LaunchRecord) -> None:
        """Write the record (mode 0600) and forget the exit status of the launch before."""
        with contextlib.suppress(FileNotFoundError):
            self.exit_path.unlink()
        replace_file(self.directory / FILE_NAME, record.to_json().encode(), 0o600)

    def retire(self) -> None:
        """Keep the record as `launch.json.last`: processes of that launch can still be told from others."""
        path = self.directory / FILE_NAME
        with contextlib.suppress(FileNotFoundError):
            path.replace(path.with_name(path.name + ".last"))

    @property
    def exit_path(self) -> Path:
        """Where the exit status of the present launch appears when it ends."""
        return self.directory / EXIT_FILE_NAME

    def exit_status(self, record: LaunchRecord) -> Optional[int]:
        """Return the launcher's exit status (negative: the signal that ended it), None while it is not known."""
        try:
            content = json.loads(self.exit_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(content, dict) or content.get("pid") != record.pid:
            return None
        status = content.get("exit_status")
        return status if isinstance(status, int) else None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def rotate_log(path: Path, keep: int) -> List[str]:
    """Rename `path` to `path.1`, `path.1` to `path.2` and so on, so that a launch begins with an empty log.

    Args:
        path: the log.
        keep: how many old ones stay.

    Returns:
        The names that were moved. An empty or missing log is left alone.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size == 0:
            return []
    moved = []
    for number in range(keep, 0, -1):
        source = path if number == 1 else path.with_name(f"{path.name}.{number - 1}")
        with contextlib.suppress(FileNotFoundError):
            source.replace(path.with_name(f"{path.name}.{number}"))
            moved.append(str(source))
    return moved


def read_inputs(paths: Sequence[str]) -> List[Tuple[str, Optional[bytes]]]:
    """Return path and content of each file for the fingerprint; None for one that cannot be read."""
    inputs: List[Tuple[str, Optional[bytes]]] = []
    for path in paths:
        try:
            inputs.append((path, Path(path).read_bytes()))
        except OSError:
            inputs.append((path, None))
    return inputs
