"""Two simulated machines that run one model together, each with an address of its own on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from controller.paths import REPOSITORY, SIMULATOR_INVENTORY
from controller.simulator import Node, create_node
from tests.integration.simulated_launch import free_port

NAMES = ("node1", "node2")


class SimulatedGroup:
    """Two nodes of two GPUs, tensor parallelism 4. All of 127.0.0.0/8 is this machine."""

    def __init__(self, root: Path, faults: dict[str, dict[str, Any]] | None = None) -> None:
        self.inventory = root / "inventory"
        self.inventory.mkdir(parents=True)
        (self.inventory / "group_vars").symlink_to(SIMULATOR_INVENTORY / "group_vars")
        self.nodes: dict[str, Node] = {
            name: create_node(root / name, "fast", gpus=2, seed=number, faults=(faults or {}).get(name))
            for number, name in enumerate(NAMES, start=1)
        }
        # Of the hosts, because the variables in group_vars/all come after those of groups in this file.
        common = {
            "sglang_server_nnodes": 2,
            "sglang_server_tp_size": 4,
            "sglang_server_port": free_port(),
            "sglang_server_dist_init_port": free_port(),
        }
        hosts = {
            name: {
                **common,
                "simulator_node": str(self.nodes[name].path),
                "ansible_host": address,
                "sglang_server_host": address,
            }
            for name, address in zip(NAMES, ("127.0.0.1", "127.0.0.2"), strict=True)
        }
        self._hosts: dict[str, dict[str, Any]] = hosts
        self.set("node1")

    def set(self, name: str, **variables: Any) -> None:
        """Give one machine variables in the inventory."""
        self._hosts[name].update(variables)
        inventory = {"all": {"children": {"inference": {"hosts": self._hosts}}}}
        (self.inventory / "hosts.yml").write_text(json.dumps(inventory))

    def start(self, playbook: str, *options: str, **variables: Any) -> subprocess.Popen[str]:
        """Start a playbook over both machines."""
        ansible = {
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        }
        command = [sys.executable, "-m", "ansible", "playbook", "-i", str(self.inventory), str(REPOSITORY / playbook)]
        return subprocess.Popen(
            [*command, "-e", json.dumps(variables), *options],
            cwd=REPOSITORY,
            env=os.environ | ansible,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def play(self, playbook: str, *options: str, **variables: Any) -> tuple[int, str]:
        """Run a playbook over both machines; return its exit status and what it printed."""
        process = self.start(playbook, *options, **variables)
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            process.kill()
        return process.returncode, output

    def launch(self, name: str) -> dict[str, Any]:
        """Return the record of the launch on one machine."""
        content: dict[str, Any] = json.loads((self.nodes[name].path / "state" / "launch.json").read_text())
        return content

    def scheduler(self, name: str, rank: int) -> int:
        """Return the PID of one rank."""
        title = f"sglang::scheduler_TP{rank}"
        return next(process.pid for process in self.nodes[name].processes() if process.name == title)

    def processes(self) -> list[str]:
        """Return the names of all that runs on both machines."""
        return [process.name for node in self.nodes.values() for process in node.processes()]

    def clean(self) -> None:
        """End whatever a test left: servers, and what samples their GPUs."""
        pids = [process.pid for node in self.nodes.values() for process in node.processes()]
        pids += [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if self._is_named_in(entry)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _is_named_in(self, entry: Path) -> bool:
        try:
            return f"{self.inventory.parent}/node".encode() in (entry / "cmdline").read_bytes()
        except OSError:
            return False
