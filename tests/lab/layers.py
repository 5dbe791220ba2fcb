"""What makes a machine of the lab out of the common base root: files laid over it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.lab import simulated_server
from tests.lab.layout import CONTAINER_ADDRESSES, INFERENCE_CONTAINER, LAB_SOURCE

if TYPE_CHECKING:
    from tests.lab.layout import Paths


def build(paths: Paths) -> None:
    """Write the layers of pve and of every container (``paths.layers``)."""
    node = paths.state / "node"
    simulated_server.describe_node(node)
    pve = paths.layers / "pve"
    shutil.copytree(LAB_SOURCE / "pve", pve, symlinks=True)
    (pve / "etc/hostname").write_text("pve\n")
    for name in ("pve", *map(str, CONTAINER_ADDRESSES)):
        simulated_server.install_gpus(paths.layers / name, node)
    simulated_server.install_server(paths.layers / str(INFERENCE_CONTAINER), node)
    shutil.rmtree(node)
