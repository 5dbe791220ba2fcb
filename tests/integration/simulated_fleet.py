"""A few small simulated nodes with one inventory: a fleet for a test. A node can be killed, as a machine that dies."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.paths import REPOSITORY, SIMULATOR_INVENTORY
from controller.simulator import Node, create_node
from tests.integration.journal_records import wait_for_record
from tests.integration.users_program import SMALL_LOAD, start_program

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


@dataclass
class SimulatedFleet:
    """Nodes of one GPU each. Ansible's own temporary folder lies on the node, so a dead node cannot be reached."""

    root: Path
    nodes: dict[str, Node]

    @classmethod
    def create(cls, root: Path, count: int) -> SimulatedFleet:
        nodes = {
            f"node{number}": create_node(root / f"node{number}", "fast", seed=number, gpus=1)
            for number in range(1, count + 1)
        }
        inventory = root / "inventory"
        inventory.mkdir()
        (inventory / "group_vars").symlink_to(SIMULATOR_INVENTORY / "group_vars")
        hosts = "".join(
            f"        {name}: {{simulator_node: {node.path}, sglang_server_tp_size: 1, "
            f"ansible_remote_tmp: {node.path}/tmp}}\n"
            for name, node in nodes.items()
        )
        (inventory / "hosts.yml").write_text(
            f"all:\n  children:\n    inference:\n      hosts:\n{hosts}"
            f"    proxmox:\n      hosts:\n        machine: {{simulator_node: {root}/node1}}\n"
        )
        return cls(root, nodes)

    @property
    def directory(self) -> Path:
        return self.root / "sweep"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the controller."""
        environment = {"XDG_STATE_HOME": str(self.root / "state"), "PYTHONPATH": str(REPOSITORY)}
        return start_program([sys.executable, "-m", "controller", *arguments], self.root, environment)

    def start_sweep(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a small sweep over all nodes."""
        return self.start(
            "sweep", "-i", str(self.root / "inventory"), "--hosts", "inference", "--dir", str(self.directory),
            *SMALL_LOAD, "--no-confirm", "--no-report", *arguments,
        )  # fmt: skip

    def wait_for(self, process: subprocess.Popen[str], kind: str, **fields: str) -> None:
        """Wait for a record of the sweep."""
        wait_for_record(process, self.directory, kind, **fields)

    def kill_node(self, name: str) -> None:
        """End everything on a node at once, and let nobody in any more."""
        node = self.nodes[name]
        shutil.rmtree(node.path / "tmp", ignore_errors=True)
        (node.path / "tmp").write_text("")
        for process in node.processes():
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def server_processes(self, name: str) -> list[int]:
        return [process.pid for process in self.nodes[name].processes()]

    def clean(self) -> None:
        """End whatever a failed test left."""
        for node in self.nodes.values():
            for process in node.processes():
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
