"""Where things are: the playbooks, the per-user state directory, the default directories."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
INSTALLED = (_PACKAGE / "_collection" / "ansible.cfg").is_file()
"""Whether this is an installed wheel, which carries the playbooks, roles and inventories inside the package."""
REPOSITORY = _PACKAGE / "_collection" if INSTALLED else _PACKAGE.parent
"""The checkout, or what the wheel has of it."""
SIMULATOR_INVENTORY = REPOSITORY / "inventory" / "simulator"


def state_directory() -> Path:
    """Return the per-user directory of locks and of the list of sweeps (``$XDG_STATE_HOME``, not created here)."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "sglang-eagle3-ops"


def simulator_node() -> Path:
    """Return the directory of the default simulated node (``$CONTROLLER_SIMULATOR_NODE`` wins).

    It is in the checkout, or for an installed controller in the user's state directory.
    """
    parent = state_directory() / "simulator" if INSTALLED else REPOSITORY / ".simulator"
    return Path(os.environ.get("CONTROLLER_SIMULATOR_NODE") or parent / "node")


def default_sweep_directory(now: datetime | None = None) -> Path:
    """Return ``./sweeps/<UTC time>``; the time makes names sort and two sweeps differ."""
    moment = now or datetime.now(UTC)
    return Path("sweeps") / moment.strftime("%Y%m%dT%H%M%SZ")


def make_private(directory: Path) -> None:
    """Make a directory, and those above it that are missing, so that only its owner can look into them (0700).

    ``Path.mkdir(parents=True, mode=…)`` gives the mode to the last one alone. An existing directory is left as it is.

    Raises:
        OSError: one of them cannot be made.
    """
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def display(path: Path) -> str:
    """Return ``path`` as an operator would type it from here."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
