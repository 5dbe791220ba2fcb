"""Put the simulated SGLang, its nvidia-smi and the models of the story into the layers of the machines."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

from controller.simulator.create import BIN, SITE, create_node, install_program
from tests.lab.layout import DRAFT_MODEL, GPU_DIRECTORY, LAB_SOURCE, SERVING_ENVIRONMENT, TARGET_MODEL

if TYPE_CHECKING:
    from pathlib import Path

PROFILE = "fast"  # loads in about a second
PROGRAMS = "opt/sglang-simulator"
DESCRIPTION = "etc/sglang-simulator/node.json"
# Debian's system Python, which every machine of the lab has.
INTERPRETER = "/usr/bin/python3"
SITE_PACKAGES = "lib/python3.11/site-packages"


def install_gpus(layer: Path, node: Path, gpus: range) -> None:
    """Install what every machine with GPUs has: nvidia-smi, ``hold-gpu``, and the description of the node.

    Args:
        layer: of the machine.
        node: the description of the host.
        gpus: the host's numbers of the GPUs that the machine has; it counts them from 0.
    """
    programs = layer / "usr/local/bin"
    programs.mkdir(parents=True, exist_ok=True)
    (programs.parents[1] / "bin").mkdir(exist_ok=True)
    install_program(BIN / "nvidia_smi.py", programs.parents[1] / "bin/nvidia-smi", INTERPRETER)
    shutil.copy2(LAB_SOURCE / "hold_gpu.py", programs / "hold-gpu")
    (programs / "hold-gpu").chmod(0o755)
    shutil.copytree(SITE, layer / PROGRAMS, ignore=shutil.ignore_patterns("__pycache__"))
    description = layer / DESCRIPTION
    description.parent.mkdir(parents=True)
    settings = json.loads((node / "node.json").read_text())
    settings["gpus"] = [settings["gpus"][number] | {"index": index} for index, number in enumerate(gpus)]
    description.write_text(json.dumps(settings, indent=2) + "\n")


def install_server(layer: Path, node: Path) -> None:
    """Install what the inference container has besides: ``sglang`` in its serving environment, and the two models."""
    packages = layer / SERVING_ENVIRONMENT.relative_to("/") / SITE_PACKAGES
    packages.mkdir(parents=True)
    (packages / "sglang_simulator.pth").write_text(f"/{PROGRAMS}\n")
    for name, path in (("target", TARGET_MODEL), ("draft", DRAFT_MODEL)):
        destination = layer / path.relative_to("/")
        destination.parent.mkdir(parents=True, exist_ok=True)
        # Links, because the weights are sparse files of gigabytes, and several containers may have them.
        shutil.copytree(node / "models" / name, destination, copy_function=os.link)


def describe_node(directory: Path, seed: int) -> None:
    """Make a simulated node to take files from; its description speaks of the lab's paths.

    Args:
        directory: where.
        seed: another one for each host, whose GPUs then have other UUIDs.
    """
    create_node(directory, PROFILE, seed=seed)
    description = directory / "node.json"
    settings = json.loads(description.read_text())
    settings |= {"gpu_dir": str(GPU_DIRECTORY), "state_dir": "/var/lib/sglang-simulator"}
    description.write_text(json.dumps(settings, indent=2) + "\n")
