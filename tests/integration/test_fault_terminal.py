"""The terminal of a sweep is closed: SIGHUP, and from then on nobody reads what is written."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.faults import THOROUGH
from tests.integration.simulated_sweep import SimulatedSweep
from tests.integration.users_program import SMALL_LOAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatedSweep]:
    one = SimulatedSweep.create(tmp_path)
    yield one
    one.clean()


class Terminal:
    """A terminal that somebody looks at until it is closed."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.name = os.ttyname(slave)
        self._slave = slave
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a command as the leader of a session whose terminal this is."""
        # A session leader without a terminal gets the first one that it opens.
        shell = ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', self.name]
        return subprocess.Popen([*shell, *command], start_new_session=True, **options)

    def close(self) -> None:
        """Hang up: the kernel sends SIGHUP, and writing fails from now on."""
        self._closing.set()
        self._reader.join()
        os.close(self._slave)
        os.close(self._master)

    def _read(self) -> None:
        while not self._closing.is_set():
            if select.select([self._master], [], [], 0.1)[0]:
                os.read(self._master, 65536)


@pytest.mark.parametrize("state", ["launching", "measuring"] if THOROUGH else ["measuring"])
def test_a_closed_terminal_stops_the_server_and_the_sweep_can_be_resumed(simulated: SimulatedSweep, state: str) -> None:
    terminal = Terminal()
    command = [sys.executable, "-m", "controller", "sweep", "-i", str(simulated.inventory), "--no-confirm"]
    command += ["--dir", str(simulated.sweep_directory), "--steps", "3", "--blocks", "1", *SMALL_LOAD]
    process = terminal.start(command, cwd=simulated.root, env=simulated.environment | {"TERM": "xterm"})
    try:
        simulated.wait_for("cell", state=state)
    finally:
        terminal.close()
    assert process.wait(120) == 5
    assert simulated.server_processes() == []
    assert simulated.records()[-1]["reason"] == "interrupted"
    if not THOROUGH:
        return  # the same as after Ctrl-C, which test_sweep_interrupted.py resumes
    done = simulated.run("sweep", "--resume", str(simulated.sweep_directory), "-i", str(simulated.inventory))
    assert done.returncode == 0, done.stderr
    assert {states.count("done") for states in simulated.states().values()} == {1}
    assert simulated.server_processes() == []
