from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.atomic_file import (
    FileWriteError,
    directory_lock,
    keep_copy,
    move_over,
    remove_file,
    remove_leftovers,
    replace_file,
)

if TYPE_CHECKING:
    from pathlib import Path

KILL_BEFORE_RENAME = """
import os, pathlib, signal, sys
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.atomic_file import replace_file
pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
replace_file(pathlib.Path(sys.argv[1]), b"new")
"""


def test_mode_and_owner_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("old")
    path.chmod(0o640)
    owner = (1234, 5678) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)
    replace_file(path, b"new")
    status = path.stat()
    assert (path.read_bytes(), stat.S_IMODE(status.st_mode)) == (b"new", 0o640)
    assert (status.st_uid, status.st_gid) == owner
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_gets_the_given_mode(tmp_path: Path) -> None:
    replace_file(tmp_path / "new", b"x", mode=0o600)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_the_first_copy_stays(tmp_path: Path) -> None:
    path, copy = tmp_path / "config.json", tmp_path / "copy"
    path.write_text("first")
    keep_copy(path, copy)
    path.write_text("second")
    keep_copy(path, copy)
    assert copy.read_text() == "first"
    move_over(copy, path)
    assert path.read_text() == "first"
    remove_file(path)
    remove_file(path)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_write_leaves_the_old_file_and_a_leftover_that_goes(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("old")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILL_BEFORE_RENAME, str(path)], env=environment, check=False)
    assert done.returncode == -9
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    assert len(remove_leftovers(path)) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_held_lock_ends_in_a_sentence(tmp_path: Path) -> None:
    with (
        directory_lock(tmp_path),
        pytest.raises(FileWriteError, match=r"another run has been changing files"),
        directory_lock(tmp_path, timeout_s=0.1),
    ):
        pass
    with directory_lock(tmp_path, timeout_s=0.1):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EIO])
def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    if number == errno.ENOLCK:
        with directory_lock(tmp_path):
            pass
    else:
        with pytest.raises(FileWriteError, match=r"cannot lock .*Input/output"), directory_lock(tmp_path):
            pass


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.EROFS, "mount it writable"), (errno.EACCES, "run as a user"), (errno.EIO, "check the directory")],
)
def test_a_directory_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def refuse(*_arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(FileWriteError, match=remedy):
        replace_file(tmp_path / "config.json", b"")
