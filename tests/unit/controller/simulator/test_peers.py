"""Ranks that meet over TCP: all at once or not at all, and one that goes takes the others with it."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from controller.simulator.site.sglang import peers
from controller.simulator.site.sglang.engine import local_ranks


def fields(port: int, **more: Any) -> dict[str, Any]:
    return {
        "nnodes": 2,
        "node_rank": 0,
        "tp_size": 2,
        "host": "127.0.0.1",
        "dist_timeout": None,
        "dist_init_addr": f"127.0.0.1:{port}",
        **more,
    }


def rank(number: int, port: int, said: list[str], wait_s: float = 5.0, **more: Any) -> peers.Peers:
    node: Any = SimpleNamespace(loading=lambda *_, **__: wait_s)
    log: Any = said.append
    return peers.Peers(fields(port, **more), node, number, log)


def connected(port: int) -> socket.socket:
    """Connect from another address of this machine, once somebody listens."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5, source_address=("127.0.0.3", 0))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_ranks_are_shared_by_nodes() -> None:
    shared = {"tp_size": 8, "nnodes": 2}
    assert list(local_ranks({**shared, "node_rank": 1})) == [4, 5, 6, 7]
    assert list(local_ranks({"tp_size": 2, "nnodes": 1, "node_rank": 0})) == [0, 1]


def test_nobody_waits_for_others_on_one_node() -> None:
    said: list[str] = []
    begin = time.monotonic()
    rank(0, 1, said, nnodes=1).meet()
    assert said == []
    assert time.monotonic() - begin < 5.0  # what loading takes here, after which the others would be waited for


def test_a_lost_rank_is_told_by_its_address(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "LEAVING_S", 0.0)
    killed = threading.Event()
    monkeypatch.setattr(os, "kill", lambda _, number: killed.set() if number == signal.SIGQUIT else None)
    said: list[str] = []
    first = threading.Thread(target=rank(0, port, said).meet)
    first.start()
    connection = connected(port)
    assert connection.recv(3) == b"go\n"
    name = f"[127.0.0.3]:{connection.getsockname()[1]}"
    connection.close()
    assert killed.wait(5)
    first.join()
    assert f"Connection closed by peer {name}" in said[0]
    assert said[0].startswith("Scheduler hit an exception: Traceback")


@pytest.mark.parametrize(("number", "says"), [(0, r"1/2 clients joined"), (1, r"client socket has timed out")])
def test_who_waits_in_vain_says_so(port: int, number: int, says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        rank(number, port, [], wait_s=0.2).meet()
