"""Files that make a machine of the lab a Proxmox host: its network, its containers' configurations, its GPUs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.lab.layout import GPU_DIRECTORY, LAB_SOURCE
from tests.lab.topology import GPUS_OF_A_HOST, hardware_address

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.topology import Container, Host, Topology

NETWORK = """\
[Unit]
Description=Bridge of the Proxmox host
DefaultDependencies=no
Before=ssh.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=ip link add vmbr0 type bridge
ExecStart=ip link set vmbr0 address {hardware} up
ExecStart=ip link set eno1 master vmbr0 up
ExecStart=ip address add {address}/24 dev vmbr0

[Install]
WantedBy=multi-user.target
"""
CONTAINER = """\
arch: amd64
cores: 2
features: nesting=1
hostname: {hostname}
memory: 8192
net0: name=eth0,bridge=vmbr0,hwaddr={hardware},ip={address}/24,type=veth
ostype: debian
rootfs: local-lvm:vm-{vmid}-disk-0,size=64G
swap: 0
unprivileged: 0
"""
CONTROL_DEVICES = ("nvidiactl", "nvidia-uvm")


def install_host(layer: Path, host: Host, topology: Topology) -> None:
    """Write what makes the machine the Proxmox host ``host``."""
    _write(layer / "etc/hostname", f"{host.name}\n")
    unit = NETWORK.format(address=host.address, hardware=hardware_address(host.address))
    _write(layer / "etc/systemd/system/lab-network.service", unit)
    wanted = layer / "etc/systemd/system/multi-user.target.wants"
    wanted.mkdir()
    (wanted / "lab-network.service").symlink_to("../lab-network.service")
    _write(layer / "etc/tmpfiles.d/gpu.conf", _devices())
    for container in topology.containers_of(host.name):
        _write(layer / f"etc/pve/lxc/{container.vmid}.conf", _configuration(container))
    pct = layer / "usr/sbin/pct"
    pct.parent.mkdir(parents=True)
    shutil.copy2(LAB_SOURCE / "pct.py", pct)
    pct.chmod(0o755)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _devices() -> str:
    # Each an alias of /dev/null, so that a scan of open files finds who uses which.
    names = (*CONTROL_DEVICES, *(f"nvidia{number}" for number in range(GPUS_OF_A_HOST)))
    devices = [f"c /dev/{name} 0666 root root - 1:3" for name in names]
    # Whoever may open the devices may have their memory.
    memory = [f"d {GPU_DIRECTORY}/gpu{number} 0777 root root" for number in range(GPUS_OF_A_HOST)]
    return "\n".join([*devices, *memory]) + "\n"


def _configuration(container: Container) -> str:
    text = CONTAINER.format(
        vmid=container.vmid,
        hostname=container.hostname,
        address=container.address,
        hardware=hardware_address(container.address),
    )
    inside = GPU_DIRECTORY.relative_to("/")
    if container.has_all_gpus:
        memory = [f"{GPU_DIRECTORY} {inside} none bind,create=dir"]
    else:  # a container counts its GPUs from 0
        memory = [
            f"{GPU_DIRECTORY}/gpu{number} {inside}/gpu{index} none bind,create=dir"
            for index, number in enumerate(container.gpus)
        ]
    names = (*CONTROL_DEVICES, *(f"nvidia{number}" for number in container.gpus))
    devices = [f"/dev/{name} dev/{name} none bind,optional,create=file" for name in names]
    return text + "".join(f"lxc.mount.entry: {entry}\n" for entry in (*memory, *devices))
