"""What the controller needs to know of an inventory before it runs a playbook: the one host, a few of its variables.

The inventory is read by ``ansible-inventory``, so every format and plugin that Ansible knows works here too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.exits import InputError
from controller.paths import REPOSITORY, SIMULATOR_INVENTORY, simulator_node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GROUP = "inference"
READ_TIMEOUT_S = 60.0
"""A dynamic inventory may ask an API; longer than this is a fault."""


@dataclass(frozen=True, slots=True)
class Target:
    """The host that serves, and what of its inventory variables the controller reads."""

    inventory: Path
    host: str
    variables: Mapping[str, Any]
    proxmox: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The address Ansible connects to."""
        return str(self.variables.get("ansible_host") or self.host)

    @property
    def simulated(self) -> bool:
        """Whether this is the simulated node: then every figure is a simulated one."""
        return "simulator_node" in self.variables

    @property
    def manager(self) -> str:
        """Who keeps the server running: ``systemd`` or ``process``."""
        return str(self.variables.get("sglang_server_manager", "systemd"))

    @property
    def machines(self) -> int:
        """How many machines run the model together; 1 where the inventory does not say it as a number."""
        value = str(self.variables.get("sglang_server_nnodes", 1))
        return int(value) if value.isdecimal() else 1

    @property
    def log_directory(self) -> str | None:
        """The log directory as the inventory writes it (maybe a template), None when the role decides."""
        value = self.variables.get("sglang_server_log_dir")
        return value if isinstance(value, str) else None

    @property
    def lock_identity(self) -> dict[str, object]:
        """What makes this node this node: address, container number, and for the simulated one its directory."""
        identity: dict[str, object] = {"address": self.address}
        for name in ("proxmox_vmid", "zombie_cleanup_vmid", "vmid"):
            if name in self.variables:
                identity["vmid"] = str(self.variables[name])
                break
        if self.simulated:
            # Ansible hands templates through as text; the one of inventory/simulator means the default directory.
            directory = str(self.variables["simulator_node"])
            identity["simulator_node"] = str(simulator_node()) if "{{" in directory else directory
        return identity

    @property
    def title(self) -> str:
        """The host as shown to the operator."""
        return f"{self.host} (simulated)" if self.simulated else f"{self.host} ({self.address})"


def read_target(inventory: Path, limit: str | None = None, *, alone: bool = False) -> Target:
    """Read the inventory and pick the host to measure.

    Args:
        inventory: An inventory with a group ``inference``.
        limit: The host, when there are several.
        alone: Whether the host has to serve without others: what restarts one machine would leave a group in pieces.

    Raises:
        InputError: the inventory is missing or broken, has no host in group ``inference``, or has several and ``limit``
            names none of them; or the host does not serve alone.
    """
    data = _read(inventory, "give one with --inventory, or leave it out for the simulated node")
    hosts = _hosts_of(data, GROUP)
    if not hosts:
        raise InputError(
            f"the inventory {inventory} has no host in the group {GROUP!r}; put the machine that runs SGLang there."
        )
    if limit is not None and limit not in hosts:
        raise InputError(f"--limit {limit}: not a host of the group {GROUP!r} ({', '.join(hosts)}) of {inventory}.")
    targets = _targets(inventory, data, hosts if limit is None else [limit])
    if alone:
        refuse_several_machines(targets)
    if len(targets) > 1:
        raise InputError(
            f"the group {GROUP!r} of {inventory} has several hosts ({', '.join(hosts)}); choose one with --limit."
        )
    return targets[0]


def refuse_several_machines(targets: Sequence[Target]) -> None:
    """Refuse hosts that run a model together with others.

    Raises:
        InputError: there is such a host.
    """
    for target in targets:
        if target.machines > 1:
            raise InputError(
                f"{target.host} runs its model together with others (sglang_server_nnodes is {target.machines}), and "
                "sweep, apply and rollback restart one machine alone; deploy such a server with deploy.yml."
            )


def read_fleet(inventory: Path, pattern: str) -> list[Target]:
    """Read the inventory and pick several hosts, in its order.

    Args:
        inventory: An inventory with a group ``inference``.
        pattern: A group, or hosts and groups with commas between.

    Raises:
        InputError: the inventory is missing or broken, or the pattern names what is not in group ``inference``.
    """
    data = _read(inventory, "give one with --inventory")
    serving = _hosts_of(data, GROUP)
    chosen: list[str] = []
    for name in (part.strip() for part in pattern.split(",")):
        members = _hosts_of(data, name) if name in data else [name]
        strangers = [host for host in members if host not in serving]
        if strangers or not members:
            raise InputError(
                f"--hosts {pattern}: {', '.join(strangers) or name} is not in the group {GROUP!r} of {inventory} "
                f"({', '.join(serving) or 'which has no host'})."
            )
        chosen += [host for host in members if host not in chosen]
    return _targets(inventory, data, [host for host in serving if host in chosen])


def default_inventory() -> Path:
    """Return the inventory of the simulated node, used when none is given."""
    return SIMULATOR_INVENTORY


def ansible_environment() -> dict[str, str]:
    """Return the environment for Ansible's commands: this interpreter's ``bin`` first, this checkout's settings.

    ``ANSIBLE_CONFIG`` is set because Ansible ignores an ``ansible.cfg`` found in a world-writable directory. The
    simulated node is named so that inventory and controller mean the same one.
    """
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
    environment["ANSIBLE_CONFIG"] = str(REPOSITORY / "ansible.cfg")
    environment.setdefault("ANSIBLE_HOST_KEY_CHECKING", "True")
    environment.setdefault("CONTROLLER_SIMULATOR_NODE", str(simulator_node()))
    return environment


def _read(inventory: Path, otherwise: str) -> dict[str, Any]:
    """Return what Ansible makes of an inventory; ``otherwise`` says what to do when there is none."""
    path = inventory.expanduser()
    if not path.exists():
        raise InputError(f"there is no inventory at {inventory}; {otherwise}.")
    return _ansible_inventory(path)


def _targets(inventory: Path, data: dict[str, Any], hosts: Sequence[str]) -> list[Target]:
    """Return the hosts with their variables."""
    path = inventory.expanduser().resolve()
    variables = data.get("_meta", {}).get("hostvars", {})
    proxmox = tuple(_hosts_of(data, "proxmox"))
    return [Target(path, host, variables.get(host, {}), proxmox) for host in hosts]


def _ansible_inventory(path: Path) -> dict[str, Any]:
    environment = ansible_environment() | {
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
    }
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "--inventory", str(path.resolve()), "--list"]
    try:
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=READ_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise InputError("ansible-inventory is not installed beside this Python; install ansible-core there.") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"reading the inventory {path} took more than {READ_TIMEOUT_S:.0f} s.") from None
    if done.returncode != 0:
        raise InputError(f"the inventory {path} cannot be read: {_reason(done.stderr)}.")
    try:
        data = json.loads(done.stdout)
    except ValueError:
        raise InputError(f"the inventory {path} cannot be read: ansible-inventory printed no JSON.") from None
    return data if isinstance(data, dict) else {}


def _reason(stderr: str) -> str:
    """Pick the sentence out of Ansible's message: the innermost reason, in one line."""
    yaml_error = re.search(r"YAML parsing failed: (?P<what>.+)", stderr)
    if yaml_error:
        origin = re.search(r"Origin: (\S+:\d+:\d+)", stderr)
        place = f" ({origin[1]})" if origin else ""
        return f"{yaml_error['what'].rstrip('.')}{place}"
    lines = [re.sub(r"^\[?(ERROR|WARNING)\]?:?\s*", "", line.strip()) for line in stderr.splitlines() if line.strip()]
    return (lines[0] if lines else "ansible-inventory failed without a message").rstrip(".")[:300]


def _hosts_of(data: Mapping[str, Any], group: str) -> list[str]:
    """Return the hosts of a group and its child groups, in inventory order."""
    found: list[str] = []
    waiting, seen = [group], set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        entry = data.get(name)
        if isinstance(entry, dict):
            found += [host for host in entry.get("hosts", []) if host not in found]
            waiting += entry.get("children", [])
    return found
