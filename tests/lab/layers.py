"""What makes a machine of the lab out of the common base root: files laid over it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.lab import proxmox, simulated_server, topology

if TYPE_CHECKING:
    from tests.lab.layout import Paths


def build(paths: Paths) -> None:
    """Write the layers of every host and every container (``paths.layers``)."""
    machines = topology.read(paths)
    for number, host in enumerate(machines.hosts, start=1):
        node = paths.state / f"node-{host.name}"
        simulated_server.describe_node(node, seed=number)
        proxmox.install_host(paths.layers / host.name, host, machines)
        simulated_server.install_gpus(paths.layers / host.name, node, range(topology.GPUS_OF_A_HOST))
        for container in machines.containers_of(host.name):
            layer = paths.layers / str(container.vmid)
            simulated_server.install_gpus(layer, node, container.gpus)
            if container.serves:
                simulated_server.install_server(layer, node)
        shutil.rmtree(node)
    for name in machines.addresses:
        (paths.layers / name / "etc/hosts").write_text(_hosts_file(machines))


def _hosts_file(machines: topology.Topology) -> str:
    names = {host.address: host.name for host in machines.hosts}
    names |= {container.address: container.hostname for container in machines.containers}
    return "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for address, name in names.items())
