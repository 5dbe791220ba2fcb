"""Where things are: the checkout with the playbooks, the per-user state directory, the default directories."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SIMULATOR_INVENTORY = REPOSITORY / "inventory" / "simulator"


def state_directory() -> Path:
    """Return the per-user directory of locks and of the list of sweeps (``$XDG_STATE_HOME``, not created here)."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "sglang-eagle3-ops"


def simulator_node() -> Path:
    """Return the directory of the default simulated node (``$CONTROLLER_SIMULATOR_NODE`` wins)."""
    return Path(os.environ.get("CONTROLLER_SIMULATOR_NODE") or REPOSITORY / ".simulator" / "node")


def default_sweep_directory(now: datetime | None = None) -> Path:
    """Return ``./sweeps/<UTC time>``; the time makes names sort and two sweeps differ."""
    moment = now or datetime.now(UTC)
    return Path("sweeps") / moment.strftime("%Y%m%dT%H%M%SZ")


def display(path: Path) -> str:
    """Return ``path`` as an operator would type it from here."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
