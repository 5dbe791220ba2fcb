"""How Ansible and people get into a lab: SSH keys, checked host keys, client configuration, inventory."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.lab.layout import CONTAINER_ADDRESSES, INFERENCE_CONTAINER, LAB_SOURCE, PVE_ADDRESS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.layout import Paths

SSH_CONFIG = """\
Host {addresses}
  User root
  IdentityFile {state}/client_key
  IdentitiesOnly yes
  UserKnownHostsFile {state}/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 10
  LogLevel ERROR
  ControlPath {control_sockets}/%C
  ProxyUseFdpass yes
  ProxyCommand nsenter --target {init} --net -- {python} {connect} %h %p
"""


def make_keys(paths: Paths) -> None:
    """Make the client's key and a host key for each machine, and list the host keys as known.

    Host keys go into the machines' layers (``etc/ssh/ssh_host_ed25519_key``), and so does the client's public key.
    """
    client = paths.state / "client_key"
    _generate(client)
    known = []
    for machine, address in machines().items():
        layer = paths.layers / machine
        host_key = layer / "etc/ssh/ssh_host_ed25519_key"
        _generate(host_key)
        known.append(f"{address} {host_key.with_suffix('.pub').read_text().strip()}")
        authorized = layer / "root/.ssh/authorized_keys"
        authorized.parent.mkdir(parents=True, exist_ok=True)
        authorized.parent.chmod(0o700)
        (layer / "root").chmod(0o700)
        authorized.write_text(client.with_suffix(".pub").read_text())
        authorized.chmod(0o600)
    (paths.state / "known_hosts").write_text("\n".join(known) + "\n")


def machines() -> dict[str, str]:
    """Name of each machine's layer and its address."""
    return {"pve": PVE_ADDRESS} | {str(vmid): address for vmid, address in CONTAINER_ADDRESSES.items()}


def write_client_files(paths: Paths, init: int) -> None:
    """Write ``ssh_config`` and ``inventory.yml``; SSH enters the network namespace of ``init``, the lab's process 1."""
    paths.control_sockets.mkdir(mode=0o700, exist_ok=True)
    paths.ssh_config.write_text(
        SSH_CONFIG.format(
            addresses=" ".join(machines().values()),
            state=paths.state,
            control_sockets=paths.control_sockets,
            init=init,
            python=sys.executable,
            connect=LAB_SOURCE / "connect.py",
        )
    )
    paths.inventory.write_text(json.dumps(inventory(paths), indent=2) + "\n")


def inventory(paths: Paths) -> dict[str, Any]:
    """Ansible inventory of a lab. JSON is YAML, so the same text serves a person, a file and an inventory script."""
    variables = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": f"-F {paths.ssh_config}",
        # All labs have the same addresses; a shared directory would let one answer for another.
        "ansible_control_path_dir": str(paths.control_sockets),
    }
    hosts = {"proxmox": ("pve", PVE_ADDRESS), "inference": ("container129", CONTAINER_ADDRESSES[INFERENCE_CONTAINER])}
    groups = {group: {"hosts": {name: {"ansible_host": address}}} for group, (name, address) in hosts.items()}
    return {"all": {"vars": variables, "children": groups}}


def inventory_script_output(paths: Paths) -> dict[str, Any]:
    """The same in the form that Ansible asks of inventory scripts."""
    whole = inventory(paths)["all"]
    groups = {name: {"hosts": list(group["hosts"])} for name, group in whole["children"].items()}
    hosts = {name: host for group in whole["children"].values() for name, host in group["hosts"].items()}
    return {"all": {"vars": whole["vars"]}, **groups, "_meta": {"hostvars": hosts}}


def _generate(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=10)
