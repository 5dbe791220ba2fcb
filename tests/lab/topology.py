"""Which machines a lab has: Proxmox hosts, and containers on them with all or some of their GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.lab.errors import LabError

if TYPE_CHECKING:
    from tests.lab.layout import Paths

GPUS_OF_A_HOST = 8
INFERENCE_CONTAINER = 129
BRIDGE_ADDRESS = "10.129.0.1"


def hardware_address(address: str) -> str:
    """An Ethernet address that follows from the IPv4 one, so that neighbours' caches stay right over restarts."""
    return "BC:24:11:00:00:{:02X}".format(int(address.rpartition(".")[2]))


@dataclass(frozen=True)
class Host:
    """A Proxmox host with eight GPUs of its own."""

    name: str
    address: str


@dataclass(frozen=True)
class Container:
    """A container on the host ``host``; ``gpus`` are the host's numbers of the GPUs that are passed through."""

    vmid: int
    hostname: str
    address: str
    host: str
    gpus: range = range(GPUS_OF_A_HOST)
    serves: bool = True

    @property
    def name(self) -> str:
        """Its name in the inventory."""
        return f"container{self.vmid}"

    @property
    def has_all_gpus(self) -> bool:
        """Whether every GPU of the host is passed through."""
        return len(self.gpus) == GPUS_OF_A_HOST


@dataclass(frozen=True)
class Topology:
    """All machines of one lab; the first host and the first container are what tests use unless they say otherwise."""

    hosts: tuple[Host, ...]
    containers: tuple[Container, ...]

    @property
    def serving(self) -> tuple[Container, ...]:
        """The containers with a serving environment."""
        return tuple(one for one in self.containers if one.serves)

    def container(self, vmid: int) -> Container:
        """The container of that number.

        Raises:
            LabError: there is none in this lab.
        """
        for one in self.containers:
            if one.vmid == vmid:
                return one
        raise LabError(f"this lab has no container {vmid}")

    def containers_of(self, host: str) -> tuple[Container, ...]:
        """The containers of one host."""
        return tuple(one for one in self.containers if one.host == host)

    @property
    def addresses(self) -> dict[str, str]:
        """Address of each machine; a container goes by its number."""
        return {host.name: host.address for host in self.hosts} | {
            str(one.vmid): one.address for one in self.containers
        }


ONE_HOST = Topology(
    hosts=(Host("pve", "10.129.0.2"),),
    containers=(
        Container(129, "inference", "10.129.0.129", "pve"),
        Container(1290, "tenant", "10.129.0.130", "pve", serves=False),
    ),
)
# Alike for a sweep over a fleet (four GPUs each), and two of them neighbours on one host.
TWO_HOSTS = Topology(
    hosts=(Host("pve", "10.129.0.2"), Host("pve2", "10.129.0.3")),
    containers=(
        Container(129, "inference", "10.129.0.129", "pve", range(4)),
        Container(231, "inference231", "10.129.0.231", "pve2", range(4)),
        Container(232, "inference232", "10.129.0.232", "pve2", range(4, 8)),
    ),
)
BY_HOSTS = {1: ONE_HOST, 2: TWO_HOSTS}


def read(paths: Paths) -> Topology:
    """The topology of a lab that has been claimed.

    Raises:
        LabError: there is no such lab.
    """
    try:
        return BY_HOSTS[int(paths.topology.read_text())]
    except FileNotFoundError:
        raise LabError(f"the lab {paths.name!r} is not running: start it with `tests/lab/lab up`") from None


def write(paths: Paths, topology: Topology) -> None:
    """Note the topology in the directory of a lab."""
    paths.topology.write_text(str(len(topology.hosts)))
