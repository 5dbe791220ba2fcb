"""How Ansible and people get into a lab: SSH keys, checked host keys, client configuration, inventory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.lab import topology
from tests.lab.layout import LAB_SOURCE, ORDINARY_UID, ORDINARY_USER
from tests.lab.simulated_server import DESCRIPTION

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
    for machine, address in topology.read(paths).addresses.items():
        layer = paths.layers / machine
        host_key = layer / "etc/ssh/ssh_host_ed25519_key"
        _generate(host_key)
        known.append(f"{address} {host_key.with_suffix('.pub').read_text().strip()}")
        for home, uid in ((layer / "root", 0), (layer / "home" / ORDINARY_USER, ORDINARY_UID)):
            _authorize(home, uid, client.with_suffix(".pub").read_text())
    (paths.state / "known_hosts").write_text("\n".join(known) + "\n")


def write_client_files(paths: Paths, init: int) -> None:
    """Write ``ssh_config`` and ``inventory.yml``; SSH enters the network namespace of ``init``, the lab's process 1."""
    paths.control_sockets.mkdir(mode=0o700, exist_ok=True)
    paths.ssh_config.write_text(
        SSH_CONFIG.format(
            addresses=" ".join(topology.read(paths).addresses.values()),
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
    machines = topology.read(paths)
    groups = {
        "proxmox": {"hosts": {host.name: {"ansible_host": host.address} for host in machines.hosts}},
        "inference": {"hosts": {one.name: _variables(paths, one) for one in machines.serving}},
    }
    return {"all": {"vars": variables, "children": groups}}


def _variables(paths: Paths, container: topology.Container) -> dict[str, Any]:
    variables: dict[str, Any] = {
        "ansible_host": container.address,
        "zombie_cleanup_vmid": container.vmid,
        "zombie_cleanup_delegate_to": container.host,
    }
    if not container.has_all_gpus:
        description = json.loads((paths.layers / str(container.vmid) / DESCRIPTION).read_text())
        variables["sglang_server_tp_size"] = len(container.gpus)
        variables["zombie_cleanup_gpu_uuids"] = [gpu["uuid"] for gpu in description["gpus"]]
    return variables


def inventory_script_output(paths: Paths) -> dict[str, Any]:
    """The same in the form that Ansible asks of inventory scripts."""
    whole = inventory(paths)["all"]
    groups = {name: {"hosts": list(group["hosts"])} for name, group in whole["children"].items()}
    hosts = {name: host for group in whole["children"].values() for name, host in group["hosts"].items()}
    return {"all": {"vars": whole["vars"]}, **groups, "_meta": {"hostvars": hosts}}


def _authorize(home: Path, uid: int, public_key: str) -> None:
    directory = home / ".ssh"
    directory.mkdir(parents=True, exist_ok=True)
    authorized = directory / "authorized_keys"
    authorized.write_text(public_key)
    authorized.chmod(0o600)
    for path in (home, directory, authorized):
        os.chown(path, uid, uid)
    for path in (home, directory):
        path.chmod(0o700)


def _generate(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=10)
