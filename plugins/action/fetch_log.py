# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The controller's part of the module fetch_log: unpacks the redacted log into a file that only its owner can read."""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

from ansible.plugins.action import ActionBase

UNPACKED_BYTES = 1 << 20


class ActionModule(ActionBase):  # type: ignore[misc] # Ansible has no types
    """Reads the log through the module and writes it."""

    def run(self, tmp: Optional[str] = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Return the result of the task."""
        result: Dict[str, Any] = super().run(tmp, task_vars)
        if self._task.check_mode:
            return {**result, "changed": False, "skipped": True, "msg": "check mode: no log is copied"}
        result.update(self._execute_module(module_name="sglang_ops.eagle3.fetch_log", task_vars=task_vars))
        packed, digest = result.pop("packed", None), result.pop("digest", "")
        if result.get("failed") or packed is None:
            return result
        data = base64.b64decode(packed)
        if hashlib.sha256(data).hexdigest() != digest:
            return {**result, "failed": True, "msg": "The log was damaged on its way; run again."}
        dest = Path(str(self._task.args["dest"])).expanduser()
        try:
            size, changed = write_private(dest, unpack(data))
        except OSError as error:
            return {**result, "failed": True, "msg": f"Cannot write {dest} on the controller: {error.strerror}."}
        return {**result, "changed": changed, "dest": str(dest), "size": size}


def unpack(data: bytes) -> Iterator[bytes]:
    """Yield the text in pieces of at most a mebibyte."""
    engine = zlib.decompressobj()
    while data:
        yield engine.decompress(data, UNPACKED_BYTES)
        data = engine.unconsumed_tail
    yield engine.flush()


def write_private(path: Path, pieces: Iterator[bytes]) -> tuple[int, bool]:
    """Write a file with mode 0600, whole or not at all; return its size and whether its content is new."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    size, digest = 0, hashlib.sha256()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
                size += len(piece)
        known = path.is_file() and _digest(path) == digest.hexdigest()
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
    return size, not known


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(UNPACKED_BYTES):
            digest.update(block)
    return digest.hexdigest()
