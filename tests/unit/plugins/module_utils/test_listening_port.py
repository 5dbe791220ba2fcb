from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.listening_port import (
    can_bind,
    listening_inodes,
    look_up,
)

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0000
   1: 0100007F:1F40 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0000
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4244 1 0000
short line
"""


def test_only_listening_sockets_of_that_port() -> None:
    assert listening_inodes(TABLE, 8000) == {4242}
    assert listening_inodes(TABLE, 22) == {4244}
    assert listening_inodes("", 22) == set()


def test_the_owner_of_a_real_port() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not look_up(port).listening
        server.listen()
        assert list(look_up(port).owners) == [os.getpid()]
        assert list(look_up(port, [os.getpid()]).owners) == [os.getpid()]
        assert not can_bind("127.0.0.1", port)
    assert can_bind("127.0.0.1", port)


def test_an_owner_that_cannot_be_seen(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(TABLE)
    state = look_up(8000, [1], str(tmp_path))
    assert state.listening
    assert state.owners == {}
