"""A disk of a few kilobytes that can be filled to the last byte (root: a tmpfs of its own)."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK = b"\0" * 4096


@contextlib.contextmanager
def small_disk(path: Path, kib: int) -> Iterator[Path]:
    """Mount a small file system at ``path``; skip the test where that is not allowed."""
    path.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(path: Path) -> Path:
    """Leave no byte free; removing the file that is returned makes room again."""
    ballast = path / "ballast"
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(BLOCK) == len(BLOCK):
            continue
    return ballast
