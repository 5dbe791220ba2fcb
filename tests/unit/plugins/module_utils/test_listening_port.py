from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.listening_port import (
    PortState,
    can_bind,
    listening_inodes,
    look_up,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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


def test_a_listener_on_another_address_is_not_in_the_way() -> None:
    assert listening_inodes(TABLE, 8000, "127.0.0.1") == {4242}
    assert listening_inodes(TABLE, 8000, "127.0.0.2") == set()
    for host in ("0.0.0.0", "localhost", "::1", ""):  # noqa: S104 - compared, not bound
        assert listening_inodes(TABLE, 8000, host) == {4242}
    assert listening_inodes(TABLE, 22, "127.0.0.2") == {4244}
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert look_up(port, host="127.0.0.1").listening
        assert not look_up(port, host="127.0.0.2").listening


def test_a_port_whose_owner_has_just_ended_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net").mkdir()
    table = tmp_path / "net" / "tcp"
    table.write_text(TABLE)
    monkeypatch.setattr(time, "sleep", lambda _: table.write_text(""))
    assert look_up(8000, [1], str(tmp_path)) == PortState(listening=False, owners={})


def test_an_owner_that_cannot_be_seen(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(TABLE)
    state = look_up(8000, [1], str(tmp_path))
    assert state.listening
    assert state.owners == {}
