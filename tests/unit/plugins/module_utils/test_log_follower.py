from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ansible_collections.sglang_ops.eagle3.plugins.module_utils import log_follower
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_clock import LaunchClock
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.log_follower import LogFollower
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import PhaseTracker

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def stamp(epoch_s: float) -> str:
    return time.strftime("[%Y-%m-%d %H:%M:%S TP0] ", time.localtime(epoch_s))


def follow(path: Path, started_at: float) -> LogFollower:
    return LogFollower(path, PhaseTracker(started_at, speculative=True), LaunchClock(started_at, 0))


def test_only_new_bytes_are_read(tmp_path: Path) -> None:
    path, now = tmp_path / "log", time.time()
    log = follow(path, now)
    assert log.read() == 0
    path.write_text(f"{stamp(now)}one\n{stamp(now)}tw")
    first = log.read()
    with path.open("a") as file:
        file.write("o\nthree")
    assert (first > 0, log.read()) == (True, 7)
    log.finish()
    assert [line.rsplit("] ")[-1] for line in log.lines] == ["one", "two", "three"]


def test_what_an_appended_log_holds_of_an_earlier_launch_is_left_out(tmp_path: Path) -> None:
    path, now = tmp_path / "log", time.time()
    path.write_text(
        f"{stamp(now - 500)}Scheduler hit an exception: Traceback\nValueError: old\n{stamp(now)}Load weight begin.\n"
    )
    log = follow(path, now)
    log.read()
    assert len(log.lines) == 1
    assert not log._tracker.fatal
    assert log._tracker.phase == "weights"


def test_a_rotated_log_is_read_from_its_begin(tmp_path: Path) -> None:
    path, now = tmp_path / "log", time.time()
    path.write_text(f"{stamp(now)}one\n")
    log = follow(path, now)
    log.read()
    path.rename(tmp_path / "log.1")
    path.write_text(f"{stamp(now)}two\n")
    assert log.read() > 0
    assert log.lines[-1].endswith("two")


def test_memory_is_bounded_and_keeps_the_first_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follower, "KEPT_LINES", 10)
    path, now = tmp_path / "log", time.time()
    noise = "".join(f"{stamp(now)}{number}\n" for number in range(50))
    path.write_text(f"{noise}{stamp(now)}Scheduler hit an exception: Traceback\nValueError: first\n{noise}")
    log = follow(path, now)
    log.read()
    assert "ValueError: first" in log.lines
    assert len(log.lines) < 2100


def test_the_middle_of_a_huge_log_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follower, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(log_follower, "HEAD_BYTES", 2000)
    path, now = tmp_path / "log", time.time()
    path.write_text(f"{stamp(now)}Load weight begin.\n" + "x" * 99 + "\n" * 1 + ("y" * 99 + "\n") * 100 + "end\n")
    log = follow(path, now)
    assert log.read() < 5000
    assert log.lines[-1] == "end"
    assert log._tracker.phase == "weights"


def asked(epoch_s: float, path: str = "/health") -> str:
    return f'{stamp(epoch_s)}INFO:     127.0.0.1:51234 - "GET {path} HTTP/1.1" 503 Service Unavailable\n'


def test_lines_about_who_asked_are_no_advance(tmp_path: Path) -> None:
    path, now = tmp_path / "log", float(int(time.time()))
    path.write_text(f"{stamp(now - 90)}Uvicorn running on http://127.0.0.1:8000\n")
    log = follow(path, now - 99)
    assert log.advanced_at is None
    log.read()
    assert log.advanced_at == log.modified_at
    for second in (80, 40, 1):
        with path.open("a") as file:
            file.write(asked(now - second, "/metrics"))
        log.read()
        assert log.advanced_at == now - 80
    again = follow(path, now - 99)
    again.read()
    assert again.advanced_at == now - 80
    with path.open("a") as file:
        file.write(f"{stamp(now)}Prefill batch")
    log.read()
    assert log.advanced_at == log.modified_at  # a line has begun
    with path.open("a") as file:
        file.write(", #new-seq: 1\n")
    log.read()
    assert log.advanced_at == log.modified_at


def test_the_stamp_of_another_clock_is_no_time_of_an_advance(tmp_path: Path) -> None:
    path, now = tmp_path / "log", time.time()
    for hours in (-1, 1):
        path.write_text(f"{stamp(now)}one\n{asked(now + hours * 3600)}")
        log = follow(path, now - 9)
        log.read()
        assert log.advanced_at == log.modified_at
    path.write_text('one\nINFO:     127.0.0.1:51234 - "GET /health HTTP/1.1" 200 OK\n')
    log = follow(path, now - 9)
    log.read()
    assert log.advanced_at == log.modified_at
