"""A simulated node and real ansible-playbook runs against it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from controller.simulator.create import create_node

REPOSITORY = Path(__file__).parents[2]
ANSIBLE_PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class SimulatedNode:
    """One node in a directory of its own, on a port of its own."""

    def __init__(self, directory: Path, faults: dict[str, Any] | None = None, **settings: Any) -> None:
        self.directory = directory
        self.port = free_port()
        create_node(directory, "fast", gpus=2, faults=faults, **settings)

    def command(self, playbook: str, variables: dict[str, Any] | None = None, *options: str) -> list[str]:
        extra = {"sglang_server_port": self.port, "sglang_server_tp_size": 2, **(variables or {})}
        return [
            str(ANSIBLE_PLAYBOOK),
            "-i",
            str(REPOSITORY / "inventory" / "simulator"),
            str(REPOSITORY / playbook),
            "-e",
            json.dumps(extra),
            *options,
        ]

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "CONTROLLER_SIMULATOR_NODE": str(self.directory),
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        }

    def play(
        self, playbook: str, variables: dict[str, Any] | None = None, *options: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(playbook, variables, *options),
            env=self.environment,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def open_play(self, playbook: str, variables: dict[str, Any] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(playbook, variables),
            env={**self.environment, "PYTHONUNBUFFERED": "1"},
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def launch(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.directory / "state" / "launch.json").read_text())
        return content

    def processes(self) -> list[int]:
        """Pids whose executable or first arguments lie in the node's directory."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if fields[0] in "ZX":
                continue
            if str(self.directory).encode() in command or fields[3] in self.sessions():
                found.append(int(entry.name))
        return found

    def sessions(self) -> set[str]:
        names = ("launch.json", "launch.json.last")
        paths = [self.directory / "state" / name for name in names]
        return {str(json.loads(path.read_text())["session"]) for path in paths if path.exists()}

    def stop(self) -> None:
        self.play("playbooks/stop.yml")


def recap(output: str) -> dict[str, int]:
    """The counters of the recap's last line."""
    line = [line for line in output.splitlines() if "unreachable=" in line][-1]
    pairs = (word.split("=") for word in line.split() if "=" in word)
    return {name: int(value) for name, value in pairs}


def wait_until(condition: Any, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("condition not met in time")
        time.sleep(0.05)
