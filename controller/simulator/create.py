"""Creating a simulated node in an empty directory."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import sysconfig
import uuid
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.simulator.models import write_draft, write_target
from controller.simulator.node import Node, NodeError
from controller.simulator.profiles import GPU_MEMORY_MIB, GPU_NAME, profile_settings
from controller.simulator.site.sglang.faults import Faults

if TYPE_CHECKING:
    import os

SITE = Path(__file__).parent / "site"
BIN = Path(__file__).parent / "bin"
SCHEMA = 1


def create_node(
    path: str | os.PathLike[str],
    profile: str = "story",
    *,
    seed: int = 1,
    time_scale: float | None = None,
    loading_scale: float | None = None,
    gpus: int = 8,
    faults: dict[str, Any] | None = None,
    python: str = sys.executable,
) -> Node:
    """Create a simulated node in an empty or missing directory.

    Args:
        path: where.
        profile: see ``controller.simulator.profiles``.
        seed: start of all pseudo-random draws; equal seeds repeat a whole series of launches.
        time_scale: wire seconds per simulated second while serving (default: the profile's).
        loading_scale: the same for start-up, polling and shutdown.
        gpus: number of GPUs.
        faults: see ``controller.simulator.site.sglang.faults``.
        python: interpreter of the node's virtual environment.

    Raises:
        NodeError: the directory is in use.
        ValueError: an unknown profile or fault.
    """
    root = Path(path).resolve()
    settings = profile_settings(profile)
    Faults.from_dict(faults or {})
    if root.exists() and any(root.iterdir()):
        raise NodeError(f"{root} is not empty; a simulated node needs a directory of its own.")
    for folder in ("bin", "gpu", "state", "logs"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    _create_environment(root / "ml-env", python)
    write_target(root / "models" / "target")
    write_draft(root / "models" / "draft")
    base = _base_interpreter(python)
    for program, name in (("nvidia_smi.py", "nvidia-smi"), ("pct.py", "pct")):
        install_program(BIN / program, root / "bin" / name, base)
    generator = random.Random(f"gpu:{seed}")  # noqa: S311 - identifiers, not secrets
    node = Node(root, {})
    node.write(
        {
            "schema": SCHEMA,
            "simulated": True,
            "profile": profile,
            "description": settings["description"],
            "seed": seed,
            "time_scale": settings["time_scale"] if time_scale is None else time_scale,
            "loading_scale": settings["loading_scale"] if loading_scale is None else loading_scale,
            "shutdown_scale": settings["loading_scale"] if loading_scale is None else loading_scale,
            "container_id": 129,
            "port": free_port(),
            "driver_version": "580.95.05",
            "gpu_dir": str(root / "gpu"),
            "state_dir": str(root / "state"),
            "gpus": [
                {
                    "index": index,
                    "uuid": f"GPU-{uuid.UUID(int=generator.getrandbits(128), version=4)}",
                    "name": GPU_NAME,
                    "pci_bus_id": f"00000000:{16 * index + 1:02X}:00.0",
                    "memory_total_mib": GPU_MEMORY_MIB,
                }
                for index in range(gpus)
            ],
            "memory": settings["memory"],
            "phases": settings["phases"],
            "speed": settings["speed"],
            "faults": faults or {},
        }
    )
    for index in range(gpus):
        (root / "gpu" / f"gpu{index}").mkdir()
    return node


def free_port(low: int = 20000, high: int = 30000) -> int:
    """Return a TCP port of the loopback address that nobody listens on.

    Below the range that the kernel hands out to outgoing connections (from 32768), so that a passing client does not
    take it between two launches. Each node has its own, so two nodes can serve at the same time.

    Raises:
        NodeError: every port tried is taken.
    """
    candidates = random.sample(range(low, high), k=100)
    for port in candidates:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise NodeError(f"no free TCP port found between {low} and {high} on the loopback address.")


def install_program(source: Path, target: Path, interpreter: str) -> None:
    """Copy a stand-in program and give it an interpreter line that starts quickly.

    ``-S`` skips ``site``, ``-E`` and ``-I`` keep the environment of the caller out.
    """
    target.write_text(f"#!{interpreter} -SEI\n{source.read_text(encoding='utf-8')}", encoding="utf-8")
    target.chmod(0o755)


def _base_interpreter(python: str) -> str:
    # The interpreter behind a virtual environment: following pyvenv.cfg would only cost time.
    if python == sys.executable:
        return str(getattr(sys, "_base_executable", sys.executable))
    return python


def _create_environment(folder: Path, python: str) -> None:
    if python == sys.executable:
        venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
        version = sysconfig.get_python_version()
    else:
        subprocess.run(
            [python, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True, timeout=60
        )
        version = next((folder / "lib").glob("python3.*")).name.removeprefix("python")
    packages = folder / "lib" / f"python{version}" / "site-packages"
    (packages / "sglang_simulator.pth").write_text(f"{SITE}\n", encoding="utf-8")
