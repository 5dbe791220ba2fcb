"""The machines of a lab, inventories of them, and what a user starts there: playbooks and the controller."""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.paths import REPOSITORY
from tests.integration.users_program import finish, start_program
from tests.lab.access import inventory as lab_inventory
from tests.lab.simulated_server import DESCRIPTION

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.lab.running import RunningLab

GROUP_VARS = REPOSITORY / "molecule" / "inventory" / "group_vars"
# The simulated server answers in real time here, so that a busy machine hardly changes what is measured.
REAL_TIME = {"time_scale": 1.0}
UPDATE = f"""
import json, pathlib, sys
path = pathlib.Path('/{DESCRIPTION}')
node = json.loads(path.read_text())
for name, value in json.loads(sys.argv[1]).items():
    node[name] = node[name] | value if isinstance(value, dict) else value
path.write_text(json.dumps(node))
"""


@dataclass
class LabFleet:
    """A lab, and a folder for inventories, sweeps and the controller's state."""

    root: Path
    lab: RunningLab

    @property
    def inventory(self) -> Path:
        return self.root / "inventory"

    def write_inventory(
        self,
        name: str = "inventory",
        *,
        everywhere: dict[str, Any] | None = None,
        proxmox: dict[str, Any] | None = None,
        **containers: dict[str, Any] | None,
    ) -> Path:
        """Write an inventory. ``apply`` writes beside it.

        Args:
            name: folder below ``root``.
            everywhere: more variables of all machines.
            proxmox: more variables of the Proxmox hosts.
            containers: more variables by container; None leaves a container out.
        """
        directory = self.root / name
        directory.mkdir(exist_ok=True)
        if not (directory / "group_vars").exists():
            (directory / "group_vars").symlink_to(GROUP_VARS)
        content = copy.deepcopy(lab_inventory(self.lab.paths))
        content["all"]["vars"] |= everywhere or {}
        groups = content["all"]["children"]
        for variables in groups["proxmox"]["hosts"].values():
            variables.update(proxmox or {})
        for container, more in containers.items():
            if more is None:
                del groups["inference"]["hosts"][container]
            else:
                groups["inference"]["hosts"][container] |= more
        (directory / "hosts.yml").write_text(json.dumps(content))
        return directory

    def configure(self, *vmids: int, **settings: Any) -> None:
        """Change the description of simulated nodes, from their next launch on."""
        for vmid in vmids:
            done = self.lab.container("/usr/bin/python3", "-c", UPDATE, json.dumps(settings), vmid=vmid)
            assert done.returncode == 0, done.stderr

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a program of this machine in the lab's network, where the servers' ports can be reached."""
        environment = {
            "XDG_STATE_HOME": str(self.root / "state"),
            "PYTHONPATH": str(REPOSITORY),
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
        }
        return start_program(self.lab.enter_network(sys.executable, "-m", *command), self.root, environment)

    def run(self, *command: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """Run such a program to its end."""
        return finish(self.start(*command), timeout)

    def controller(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("controller", *arguments)

    def play(self, playbook: str, inventory: Path, *options: str) -> subprocess.CompletedProcess[str]:
        path = str(REPOSITORY / "playbooks" / f"{playbook}.yml")
        return self.run("ansible", "playbook", "-i", str(inventory), path, *options)

    def main_pid(self, vmid: int) -> int:
        """PID of the unit's main process inside the container; 0 when none runs."""
        asked = self.lab.container("systemctl", "show", "--property=MainPID", "--value", "sglang.service", vmid=vmid)
        return int(asked.stdout)

    def used_mib(self, vmid: int) -> list[int]:
        """GPU memory of a container's GPUs in MiB, as the container sees it."""
        query = ("--query-gpu=memory.used", "--format=csv,noheader,nounits")
        return [int(line) for line in self.lab.container("nvidia-smi", *query, vmid=vmid).stdout.split()]
