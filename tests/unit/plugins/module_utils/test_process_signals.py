from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_signals import send_signal
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_termination import Terminator

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = ProcessTable()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        yield child
        child.kill()


def ticks(child: subprocess.Popen[bytes]) -> int:
    start_ticks = TABLE.start_ticks(child.pid)
    assert start_ticks is not None
    return start_ticks


def no_pidfd(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    if how == "missing":
        monkeypatch.delattr(os, "pidfd_open")
    elif how == "refused":
        monkeypatch.setattr(os, "pidfd_open", refuse)


@pytest.mark.parametrize("how", ["pidfd", "missing", "refused"])
def test_the_chosen_process_gets_the_signal(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    no_pidfd(monkeypatch, how)
    assert send_signal(sleeper.pid, ticks(sleeper), signal.SIGTERM, TABLE.start_ticks)
    assert sleeper.wait(5) == -signal.SIGTERM


@pytest.mark.parametrize("how", ["pidfd", "missing", "refused"])
def test_another_process_with_the_same_number_does_not(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    no_pidfd(monkeypatch, how)
    assert not send_signal(sleeper.pid, ticks(sleeper) - 1, signal.SIGKILL, TABLE.start_ticks)
    assert sleeper.poll() is None


@pytest.mark.parametrize("how", ["pidfd", "missing"])
def test_a_process_that_goes_in_between_is_gone(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    no_pidfd(monkeypatch, how)
    start = ticks(sleeper)

    def dies_after_the_look(pid: int) -> int | None:
        found = TABLE.start_ticks(pid)
        sleeper.kill()
        sleeper.wait()
        return found

    assert not send_signal(sleeper.pid, start, signal.SIGTERM, dies_after_the_look)
    assert not send_signal(sleeper.pid, start, signal.SIGTERM, TABLE.start_ticks)


def test_the_pidfd_comes_before_the_look_at_the_start_time(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    opened = os.pidfd_open

    def spy(pid: int, *more: Any) -> int:
        order.append("pidfd")
        return opened(pid, *more)

    monkeypatch.setattr(os, "pidfd_open", spy)

    def look(pid: int) -> int | None:
        order.append("look")
        return TABLE.start_ticks(pid)

    send_signal(sleeper.pid, ticks(sleeper), signal.SIGTERM, look)
    assert order == ["pidfd", "look"]


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_groups_and_init_are_refused(pid: int) -> None:
    with pytest.raises(ValueError, match="refuse to signal"):
        send_signal(pid, 0, signal.SIGTERM, TABLE.start_ticks)


def test_a_process_that_ignores_term_is_killed_and_a_zombie_counts_as_gone() -> None:
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(["python3", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"deaf\n"
        process = TABLE.read(child.pid)
        assert process is not None
        outcome = Terminator(TABLE, 0.2, 5).terminate([process], [process])
        # Nobody has waited for the child yet, so it is a zombie now.
        assert [(ended.process.pid, ended.signal) for ended in outcome.ended] == [(child.pid, "KILL")]
        assert not outcome.survivors


def test_a_survivor_that_is_gone_when_looked_at() -> None:
    process = TABLE.read(os.getpid())
    assert process is not None
    table = ProcessTable("/nonexistent")
    assert Terminator(table, 1, 1).survivor(process).state == process.state
