"""A simulated node of one test, and the controller as a user runs it: a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.journal import Record, read_journal
from controller.paths import REPOSITORY, SIMULATOR_INVENTORY
from controller.simulator import Node, create_node
from tests.integration.users_program import SMALL_LOAD, finish, start_program


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class SimulatedSweep:
    """One node with an inventory and a state directory of its own."""

    root: Path
    node: Node
    inventory: Path
    port: int
    more_environment: dict[str, str] = field(default_factory=dict)
    """What the controller gets on top."""

    @classmethod
    def create(cls, root: Path, *, profile: str = "fast", **options: Any) -> SimulatedSweep:
        port = free_port()
        node = create_node(root / "node", profile, **options)
        inventory = root / "inventory"
        inventory.mkdir()
        for entry in SIMULATOR_INVENTORY.iterdir():
            if entry.name != "host_vars":  # what apply wrote for the node of this checkout
                (inventory / entry.name).symlink_to(entry)
        (inventory / "zz_test.yml").write_text(
            f"inference:\n  hosts:\n    simulated:\n      sglang_server_port: {port}\n"
        )
        return cls(root, node, inventory, port)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "CONTROLLER_SIMULATOR_NODE": str(self.node.path),
            "XDG_STATE_HOME": str(self.root / "state"),
            "PYTHONPATH": str(REPOSITORY),
            **self.more_environment,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the controller."""
        return start_program([sys.executable, "-m", "controller", *arguments], self.root, self.environment)

    def run(self, *arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """Run the controller to its end."""
        return finish(self.start(*arguments), timeout)

    def sweep(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a sweep with the small workload in ``root/sweep``."""
        return self.run("sweep", "-i", str(self.inventory), "--dir", str(self.sweep_directory), *SMALL_LOAD, *arguments)

    def play(self, playbook: str, variables: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Run a playbook as a user does who has no controller."""
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(self.inventory)]
        more = {"ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"), "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
        return subprocess.run(
            [*command, str(REPOSITORY / "playbooks" / f"{playbook}.yml"), "-e", json.dumps(variables)],
            cwd=REPOSITORY,
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    @property
    def sweep_directory(self) -> Path:
        return self.root / "sweep"

    def records(self) -> list[Record]:
        return list(read_journal(self.sweep_directory / "journal.jsonl").records)

    def states(self) -> dict[str, list[str]]:
        """Return every state of every cell, in order."""
        found: dict[str, list[str]] = {}
        for record in self.records():
            if record["kind"] == "cell":
                found.setdefault(record["cell"], []).append(record["state"])
        return found

    def server_processes(self) -> list[int]:
        """Return what of the simulated server is alive, however it is called."""
        return [process.pid for process in self.node.processes()]

    def gpu_memory_used(self) -> list[int]:
        """Return the MiB in use per GPU, as nvidia-smi says."""
        command = [
            str(self.node.path / "bin" / "nvidia-smi"),
            "--query-gpu=memory.used",
            "--format=csv,noheader,nounits",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [int(line) for line in done.stdout.split()]

    def wait_for(self, kind: str, timeout: float = 240, **fields: Any) -> None:
        """Wait until the journal holds such a record."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            try:
                records = self.records()
            except Exception:  # noqa: BLE001 - the journal does not exist yet
                records = []
            if any(record["kind"] == kind and fields.items() <= record.items() for record in records):
                return
            time.sleep(0.02)
        raise TimeoutError(f"no {kind} {fields} within {timeout} s")

    def wait_for_server(self, timeout: float = 240) -> None:
        """Wait until a launch is recorded and lives."""
        deadline = time.monotonic() + timeout
        while not ((self.node.path / "state" / "launch.json").exists() and self.server_processes()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no server within {timeout} s")
            time.sleep(0.05)

    def clean(self) -> None:
        """End whatever a failed test left of the server."""
        for pid in self.server_processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the one JSON document of a command."""
    parsed = json.loads(done.stdout)
    assert isinstance(parsed, dict)
    return parsed
