from __future__ import annotations

import base64
import hashlib
import os
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.action.fetch_log import unpack, write_private
from ansible_collections.sglang_ops.eagle3.plugins.modules.fetch_log import BLOCK_BYTES, read_log

if TYPE_CHECKING:
    from pathlib import Path

KEY = "correct-horse-battery"


def fetched(log: Path, **parameters: Any) -> bytes:
    result = read_log({"src": str(log), "secrets": [KEY], "tail_bytes": 0, **parameters})
    data = base64.b64decode(result["packed"])
    assert hashlib.sha256(data).hexdigest() == result["digest"]
    return b"".join(unpack(data))


def test_a_log_larger_than_a_block_without_its_secrets(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    line = b"[2026-11-30 08:00:00 TP0] Decode batch, #running-req: 1, token usage: 0.01\n"
    log.write_bytes(b"server_args=ServerArgs(api_key='other')\n" + line * (3 * BLOCK_BYTES // len(line)) + KEY.encode())
    found = fetched(log)
    assert found.startswith(b"server_args=ServerArgs(api_key='REDACTED')\n[2026")
    assert found.endswith(b"\nREDACTED")
    assert found.count(line) == 3 * BLOCK_BYTES // len(line)


@pytest.mark.parametrize(("size", "expected"), [(0, b"one\ntwo\nthree\n"), (10, b"two\nthree\n"), (8, b"three\n")])
def test_the_end_alone_begins_with_a_whole_line(tmp_path: Path, size: int, expected: bytes) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"one\ntwo\nthree\n")
    assert fetched(log, tail_bytes=size) == expected


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    assert read_log({"src": str(tmp_path / "none"), "secrets": [], "tail_bytes": 0}) == {
        "changed": False,
        "found": False,
    }


def test_the_file_is_private_and_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "server.log"
    assert write_private(path, iter([b"a", b"b"])) == (2, True)
    assert write_private(path, iter([b"ab"])) == (2, False)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700

    def breaks() -> Any:
        yield b"x"
        raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match="No space"):
        write_private(path, breaks())
    assert [entry.name for entry in path.parent.iterdir()] == ["server.log"]
    assert path.read_bytes() == b"ab"
