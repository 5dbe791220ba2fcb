"""The live view on a real terminal, against a simulated server that is deployed by Ansible, killed and looked for."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.integration.simulated_node import REPOSITORY, SimulatedNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 60.0
CONTROL = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[=>])")


class Terminal:
    """The live view on a terminal of its own; what it drew is kept, without control sequences."""

    def __init__(self, node: SimulatedNode) -> None:
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "controller", "watch", "--gpus-every", "1"],
            cwd=REPOSITORY,
            env=node.environment | {"TERM": "xterm", "COLUMNS": "160", "LINES": "40"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(self.master, 65536):
                self.text += CONTROL.sub("", chunk.decode("utf-8", "replace"))

    def press(self, key: str) -> None:
        """Press a key and forget what was drawn before."""
        self.text = ""
        os.write(self.master, key.encode())

    def wait(self, pattern: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, f"{pattern} was never shown; at last: {self.text[-3000:]}"
            assert self.process.poll() is None, self.text[-3000:]
            time.sleep(0.05)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    made = SimulatedNode(tmp_path / "node")
    # The port that the inventory knows, because the live view takes nothing from a command line of Ansible.
    made.port = json.loads((made.directory / "node.json").read_text())["port"]
    try:
        yield made
    finally:
        for pid in made.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_server_is_watched_through_its_death(node: SimulatedNode) -> None:
    done = node.play("deploy.yml", {"sglang_server_enable_metrics": True, "preflight_enabled": False})
    assert done.returncode == 0, done.stdout + done.stderr
    body = {"text": "Hello", "sampling_params": {"max_new_tokens": 512, "ignore_eos": True}}
    httpx.post(f"http://127.0.0.1:{node.port}/generate", json=body, timeout=60, trust_env=False).raise_for_status()

    once = subprocess.run(
        [sys.executable, "-m", "controller", "watch", "--once", "--json"],
        cwd=REPOSITORY,
        env=node.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert once.returncode == 0, once.stderr
    found = json.loads(once.stdout)
    assert (found["condition"], found["simulated"]) == ("serving", True)
    assert 1 < found["acceptance_length"] < 4
    assert [gpu["used_mib"] > 10_000 for gpu in found["gpus"]] == [True, True]
    assert found["launch"]["launch_id"] == node.launch["launch_id"]
    assert "--enable-metrics" in found["launch"]["argv"]

    screen = Terminal(node)
    try:
        screen.wait(r"serving, idle")
        screen.wait(r"GPU memory +2 x \d+\.\d of 95\.6 GiB")
        screen.wait(r"steps-3 \(EAGLE3\), up \d+")
        screen.press("l")
        screen.wait(r"POST /generate HTTP/1\.1")
        screen.press("d")
        screen.wait(r"runbook +docs/runbooks/[\w-]+\.md")
        screen.press("d")
        screen.wait(r"tok/s")
        os.kill(node.launch["pid"], signal.SIGKILL)
        screen.wait(r"not answering|dead")
        screen.wait(r"does not answer|docs/runbooks/")
        screen.press("q")
        assert screen.process.wait(20) == 0
        assert termios.tcgetattr(screen.slave)[3] == screen.before[3]
    finally:
        screen.close()
