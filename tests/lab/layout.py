"""Where the lab keeps its files, and the paths on its machines.

Everything lives in one cache directory outside the repository::

    ~/.cache/sglang-eagle3-ops/lab/base-<hash>/   base root and serving environment, built once for a list of packages
    ~/.cache/sglang-eagle3-ops/lab/run/<name>/    one running lab: keys, inventory, logs; removed when the lab goes
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tests.lab.errors import LabError

REPOSITORY = Path(__file__).resolve().parents[2]
LAB_SOURCE = Path(__file__).resolve().parent

DEFAULT_NAME = "default"
# The name is part of a Unix socket path (OpenSSH control master), which may not exceed 108 bytes.
NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,15}")

# The same path on the hosts and, bind-mounted, in the containers. Not under /run: a container's systemd would hide it.
GPU_DIRECTORY = Path("/var/lib/simulated-gpu")

# An ordinary login beside root's, who may become root with sudo.
ORDINARY_USER = "admin"
ORDINARY_UID = 1000

TARGET_MODEL = Path("/shared/kimi-k2.5-int4")
DRAFT_MODEL = Path("/data/eagle3/output_100k_sglang/4")
SERVING_ENVIRONMENT = Path("/root/ml-env")


def cache_directory() -> Path:
    """The lab's cache: ``$XDG_CACHE_HOME`` or ``~/.cache``, then ``sglang-eagle3-ops/lab``."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "sglang-eagle3-ops" / "lab"


@dataclass(frozen=True)
class Paths:
    """Files of one lab, by name."""

    name: str

    def __post_init__(self) -> None:
        if not NAME_PATTERN.fullmatch(self.name):
            raise LabError(
                f"lab name {self.name!r} is not usable: write up to 16 of a-z, 0-9 and '-', starting with a letter"
            )

    @property
    def state(self) -> Path:
        """The lab's own directory."""
        return cache_directory() / "run" / self.name

    @property
    def layers(self) -> Path:
        """What is laid over the base root: ``pve/``, ``129/``, one for each machine."""
        return self.state / "layers"

    @property
    def topology(self) -> Path:
        """Which machines the lab has; see ``tests.lab.topology``."""
        return self.state / "topology"

    @property
    def inventory(self) -> Path:
        """Ansible inventory of the lab."""
        return self.state / "inventory.yml"

    @property
    def ssh_config(self) -> Path:
        """OpenSSH client configuration: keys, host keys and the way into the lab's network."""
        return self.state / "ssh_config"

    @property
    def control_sockets(self) -> Path:
        """OpenSSH control sockets; of this lab only, because all labs use the same addresses."""
        return self.state / "cp"

    @property
    def holder(self) -> Path:
        """Identity of the process that holds the lab."""
        return self.state / "holder.json"

    @property
    def keeper(self) -> Path:
        """Identity of the process that cleans up after the lab."""
        return self.state / "keeper.json"

    @property
    def init(self) -> Path:
        """Identity of the lab's process 1."""
        return self.state / "init.json"

    @property
    def log(self) -> Path:
        """Output of the keeper and of the namespace script."""
        return self.state / "lab.log"
