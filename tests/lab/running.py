"""A lab that runs: its machines, and commands in them."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from tests.lab import topology
from tests.lab.errors import LabError
from tests.lab.layout import Paths
from tests.lab.processes import ProcessIdentity
from tests.lab.topology import INFERENCE_CONTAINER

if TYPE_CHECKING:
    from collections.abc import Callable

COMMAND_TIMEOUT_S = 60.0
BOOT_TIMEOUT_S = 20.0
POLL_S = 0.03
BOOTED = ("running", "degraded")

Completed = subprocess.CompletedProcess[str]


class RunningLab:
    """Access to a lab that some process holds."""

    def __init__(self, name: str) -> None:
        """Attach to the lab ``name``.

        Raises:
            LabError: no such lab runs.
        """
        self.name = name
        self.paths = Paths(name)
        init = ProcessIdentity.read(self.paths.init)
        if init is None or not init.alive():
            raise LabError(f"the lab {name!r} is not running: start it with `tests/lab/lab up`")
        self.init = init
        self.topology = topology.read(self.paths)

    def enter_network(self, *command: str) -> list[str]:
        """The command line that runs a command of this machine in the lab's network."""
        return ["nsenter", "--target", str(self.init.pid), "--net", "--", *command]

    def enter_pve(self, *command: str, host: str = "pve") -> list[str]:
        """The command line that runs a command on a Proxmox host, without SSH."""
        return [
            "nsenter",
            "--target",
            str(self.init.pid),
            "--all",
            "--",
            "lxc-attach",
            "--name",
            host,
            "--clear-env",
            "--",
            *command,
        ]

    def pve(self, *command: str, host: str = "pve", timeout: float = COMMAND_TIMEOUT_S) -> Completed:
        """Run a command on a Proxmox host, as root, without SSH."""
        return _run(self.enter_pve(*command, host=host), timeout)

    def pve_of(self, vmid: int, *command: str, timeout: float = COMMAND_TIMEOUT_S) -> Completed:
        """Run a command on the host of a container."""
        return self.pve(*command, host=self.topology.container(vmid).host, timeout=timeout)

    def container(
        self, *command: str, vmid: int = INFERENCE_CONTAINER, timeout: float = COMMAND_TIMEOUT_S
    ) -> Completed:
        """Run a command in a container through ``pct exec``."""
        return self.pve_of(vmid, "pct", "exec", str(vmid), "--keep-env", "0", "--", *command, timeout=timeout)

    def ssh_command(self, machine: str, *command: str) -> list[str]:
        """The command line of ``ssh`` to a machine: the name of a host or the number of a container.

        Raises:
            LabError: this lab has no such machine.
        """
        addresses = self.topology.addresses
        if machine not in addresses:
            raise LabError(f"this lab has no machine {machine!r}; it has {', '.join(addresses)}")
        return ["ssh", "-F", str(self.paths.ssh_config), addresses[machine], *command]

    def ssh(self, machine: str, *command: str, timeout: float = COMMAND_TIMEOUT_S) -> Completed:
        """Run a command over SSH, with the host key checked."""
        return _run(self.ssh_command(machine, *command), timeout)

    def start_container(self, vmid: int = INFERENCE_CONTAINER) -> None:
        """Start a container and wait until its systemd has started everything.

        Raises:
            LabError: it did not start, or not within 20 s.
        """
        started = self.pve_of(vmid, "pct", "start", str(vmid))
        if started.returncode:
            raise LabError(f"container {vmid} did not start: {started.stderr.strip()}")
        self.wait_until(lambda: self.container_booted(vmid), f"container {vmid} to boot")

    def host_booted(self, host: str = "pve") -> bool:
        """Whether the host's systemd has started everything."""
        return self.pve("systemctl", "is-system-running", host=host).stdout.strip() in BOOTED

    def container_booted(self, vmid: int = INFERENCE_CONTAINER) -> bool:
        """Whether the container's systemd has started everything."""
        return self.container("systemctl", "is-system-running", vmid=vmid).stdout.strip() in BOOTED

    def reset_container(self, vmid: int = INFERENCE_CONTAINER) -> None:
        """Give the container an empty disk and start it: about half a second."""
        self.pve_of(vmid, "pct", "rollback", str(vmid), "fresh")
        self.start_container(vmid)

    @staticmethod
    def wait_until(condition: Callable[[], bool], what: str, timeout: float = BOOT_TIMEOUT_S) -> None:
        """Poll until the condition holds.

        Raises:
            LabError: it did not hold in time.
        """
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise LabError(f"the lab waited {timeout:.0f} s for {what}")
            time.sleep(POLL_S)


def _run(command: list[str], timeout: float) -> Completed:
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout, check=False
    )
