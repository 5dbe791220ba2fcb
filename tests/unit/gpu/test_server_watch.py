"""The moments of a launch are read from its processes and its log."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.bench.server_watch import Life, ServerWatch, leaders, read_lives, write_lives

if TYPE_CHECKING:
    from pathlib import Path

SERVER = """
import signal, sys, time
def end(*_):
    print("SIGTERM received. signum=None", flush=True)
    time.sleep(0.4)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
time.sleep(0.5)
print("The server is fired up and ready to roll!", flush=True)
time.sleep(60)
"""


def test_a_launch_is_seen_from_start_to_end(tmp_path: Path) -> None:
    python = tmp_path / "ml-env" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    begin = time.time() - 0.1  # the kernel counts starts in hundredths of a second
    with ServerWatch(tmp_path) as watch, (tmp_path / "log").open("w") as log:
        command = [str(python), "-c", SERVER, "sglang.launch_server"]
        server = subprocess.Popen(command, stdout=log, start_new_session=True)
        try:
            while not watch.loading_s(begin, time.time()) and time.time() < begin + 20:
                time.sleep(0.05)
            assert leaders(tmp_path) == [server.pid]
            server.terminate()
            server.wait(20)
        finally:
            server.kill()
        time.sleep(0.3)
    assert watch.lives[server.pid].started == pytest.approx(begin, abs=1.0)
    assert 0.4 < watch.loading_s(begin, time.time()) < 10
    assert 0.2 < watch.stopping_s(begin, time.time()) < 10
    assert watch.loading_s(begin - 60, begin - 30) == 0


def test_what_one_process_watched_another_reads(tmp_path: Path) -> None:
    file = tmp_path / "lives.jsonl"
    write_lives([Life(7, started=100.0, ready=140.0, asked=150.0, gone=155.0), Life(8, started=160.0)], file)
    with ServerWatch(tmp_path, before=read_lives(file)) as watch:
        assert watch.loading_s(90.0, 110.0) == 40.0
        assert watch.stopping_s(150.0, 160.0) == 5.0
        assert watch.loading_s(159.0, 161.0) == 0
