"""Writes a file of the controller's own: for its owner's eyes alone, and whole or not at all.

For files that a program can do without or that are written before anything starts, so nothing waits for the disk, and
nothing is kept of mode and owner of the file before. What Ansible or an operator wrote is replaced with
``module_utils/atomic_file``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_private(path: Path, data: bytes | str) -> None:
    """Put ``data`` under the name ``path`` (0600). A reader, or a kill, finds the old file or the new one.

    One at a time: two writers of the same file would share the temporary one beside it.

    Raises:
        OSError: it cannot be written; what was there still is.
    """
    temporary = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
