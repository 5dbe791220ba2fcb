"""Put the simulated SGLang, its nvidia-smi and the models of the story into the layers of the machines."""

from __future__ import annotations

import json
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


def install_gpus(layer: Path, node: Path) -> None:
    """Install what every machine with the GPUs has: the description of the node, nvidia-smi and ``hold-gpu``."""
    programs = layer / "usr/local/bin"
    programs.mkdir(parents=True, exist_ok=True)
    (programs.parents[1] / "bin").mkdir(exist_ok=True)
    install_program(BIN / "nvidia_smi.py", programs.parents[1] / "bin/nvidia-smi", INTERPRETER)
    shutil.copy2(LAB_SOURCE / "hold_gpu.py", programs / "hold-gpu")
    (programs / "hold-gpu").chmod(0o755)
    shutil.copytree(SITE, layer / PROGRAMS, ignore=shutil.ignore_patterns("__pycache__"))
    description = layer / DESCRIPTION
    description.parent.mkdir(parents=True)
    shutil.copy2(node / "node.json", description)


def install_server(layer: Path, node: Path) -> None:
    """Install what the inference container has besides: ``sglang`` in its serving environment, and the two models."""
    packages = layer / SERVING_ENVIRONMENT.relative_to("/") / SITE_PACKAGES
    packages.mkdir(parents=True)
    (packages / "sglang_simulator.pth").write_text(f"/{PROGRAMS}\n")
    for name, path in (("target", TARGET_MODEL), ("draft", DRAFT_MODEL)):
        destination = layer / path.relative_to("/")
        destination.parent.mkdir(parents=True, exist_ok=True)
        (node / "models" / name).rename(destination)


def describe_node(directory: Path) -> None:
    """Make a simulated node to take files from; its description speaks of the lab's paths."""
    create_node(directory, PROFILE)
    description = directory / "node.json"
    settings = json.loads(description.read_text())
    settings |= {"gpu_dir": str(GPU_DIRECTORY), "state_dir": "/var/lib/sglang-simulator"}
    description.write_text(json.dumps(settings, indent=2) + "\n")
