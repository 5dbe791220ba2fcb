"""Read and retire launch records in a state directory, also one inside a container.

The container's files are reached through /proc/<init>/root. A symbolic link in there would be resolved against the
host's root, so links are refused: a container must not make the host read or rename one of its own files.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Iterator, List

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_launches import LaunchRecord, parse_launch

CURRENT = "launch.json"
LAST = "launch.json.last"
MAXIMUM_BYTES = 4 * 1024 * 1024


class LaunchFiles:
    """The launch records of one state directory.

    Args:
        state_dir: absolute path as the server sees it.
        root: "/" or the ``/proc/<init>/root`` of the container that the path belongs to.
    """

    def __init__(self, state_dir: str, root: str = "/") -> None:
        self.state_dir = state_dir
        self.root = root
        self._no_links = root != "/"

    def read(self) -> List[LaunchRecord]:
        """The current record and the last one, where they exist.

        Raises:
            GpuError: a record exists and cannot be understood: which processes belong to the server would be a guess.
        """
        records = []
        with self._directory() as directory:
            if directory < 0:
                return []
            for name in (CURRENT, LAST):
                try:
                    text = self._text(directory, name)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise self._unreadable(name, error.strerror or str(error)) from error
                try:
                    records.append(parse_launch(name, text))
                except ValueError as error:
                    raise self._unreadable(name, str(error)) from error
        return records

    def retire(self) -> None:
        """Keep ``launch.json`` as ``launch.json.last``.

        Raises:
            GpuError: the directory cannot be written.
        """
        with self._directory() as directory:
            if directory < 0:
                return
            try:
                os.rename(CURRENT, LAST, src_dir_fd=directory, dst_dir_fd=directory)
            except FileNotFoundError:
                return
            except OSError as error:
                raise GpuError(
                    f"The record {self.state_dir}/{CURRENT} cannot be renamed to {LAST}: {error.strerror}.",
                    [f"check the permissions of {self.state_dir}"],
                ) from error

    @contextlib.contextmanager
    def _directory(self) -> Iterator[int]:
        """A descriptor of the state directory, -1 when it does not exist."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            descriptor = self._walk(flags) if self._no_links else os.open(self.state_dir, flags)
        except FileNotFoundError:
            yield -1
            return
        except OSError as error:
            raise GpuError(
                f"The state directory {self.state_dir} cannot be opened: {error.strerror or error}.",
                ["give the directory's real path: a symbolic link inside a container is not followed", "run as root"],
            ) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _walk(self, flags: int) -> int:
        descriptor = os.open(self.root, flags)
        for component in self.state_dir.split("/"):
            if not component:
                continue
            try:
                following = os.open(component, flags | os.O_NOFOLLOW, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = following
        return descriptor

    def _text(self, directory: int, name: str) -> str:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if self._no_links else 0)
        with os.fdopen(os.open(name, flags, dir_fd=directory), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("not a regular file")
            return file.read(MAXIMUM_BYTES).decode("utf-8", "replace")

    def _unreadable(self, name: str, why: str) -> GpuError:
        return GpuError(
            f"The launch record {self.state_dir}/{name} cannot be understood ({why}), "
            "so which processes are the server's is unknown.",
            [
                "look at the file, and at ps -eo pid,ppid,sid,stat,args on that machine",
                f"move {name} away once no server runs",
            ],
        )
