"""The description of the simulated machine: where it is found and what it says."""

from __future__ import annotations

import fcntl
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from .faults import Faults

SYSTEM_WIDE = Path("/etc/sglang-simulator/node.json")


class NodeNotFoundError(RuntimeError):
    """No node.json belongs to this Python environment."""


def find_node_file() -> Path:
    """Return the node.json of this Python: beside the virtual environment, else the system-wide one.

    Raises:
        NodeNotFoundError: neither file exists.
    """
    beside = Path(sys.prefix).parent / "node.json"
    for candidate in (beside, SYSTEM_WIDE):
        if candidate.is_file():
            return candidate
    raise NodeNotFoundError(
        f"No simulated node belongs to {sys.prefix}: neither {beside} nor {SYSTEM_WIDE} exists. "
        "Create one with `python -m controller simulator create NODE`."
    )


class Node:
    """Settings of a simulated node, read once per process.

    Attributes:
        time_scale: wire seconds per simulated second while serving (0.1 = ten times faster than the real machine).
        loading_scale: the same for start-up and polling intervals.
        shutdown_scale: the same for noticing SIGTERM and for ending (loading_scale unless set).
        seed: start of every pseudo-random draw.
    """

    def __init__(self, root: Path, settings: dict[str, Any]) -> None:
        self.root = root
        self.settings = settings
        self.time_scale = float(settings.get("time_scale", 1.0))
        self.loading_scale = float(settings.get("loading_scale", self.time_scale))
        self.shutdown_scale = float(settings.get("shutdown_scale", self.loading_scale))
        self.seed = int(settings.get("seed", 1))
        self.profile = str(settings.get("profile", "story"))
        self.gpus: list[dict[str, Any]] = settings["gpus"]
        self.gpu_dir = Path(settings.get("gpu_dir", root / "gpu"))
        self.state_dir = Path(settings.get("state_dir", root / "state"))
        self.memory: dict[str, float] = settings["memory"]
        self.phases: dict[str, float] = settings["phases"]
        self.speed: dict[str, Any] = settings["speed"]
        self.faults = Faults.from_dict(settings.get("faults", {}))

    @classmethod
    def load(cls, path: Path | None = None) -> Node:
        """Read the node's description from ``path`` (default: the one of this Python environment)."""
        path = path or find_node_file()
        settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(path.parent, settings)

    def loading(self, seconds: float, at_least: float = 0.0) -> float:
        """Return wire seconds for a start-up or polling time of the real server."""
        return max(seconds * self.loading_scale, at_least)

    def shutdown(self, seconds: float, at_least: float = 0.0) -> float:
        """Return wire seconds for a time of the real server's shutdown."""
        return max(seconds * self.shutdown_scale, at_least)

    def random(self, *purpose: object) -> random.Random:
        """Return a generator which repeats for the same seed and purpose."""
        return random.Random(":".join(str(part) for part in (self.seed, *purpose)))  # noqa: S311 - a simulation

    def next_launch(self) -> int:
        """Count this launch and return its number (from 1).

        Launches of one node differ from each other, yet a node created again with the same seed repeats them all.
        """
        self.state_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.state_dir / "launches", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            number = int(os.read(descriptor, 32) or b"0") + 1
            os.pwrite(descriptor, b"%d\n" % number, 0)
            return number
        finally:
            os.close(descriptor)
