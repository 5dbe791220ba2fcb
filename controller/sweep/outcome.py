"""How a cell ended, and the log of its server that is still to be fetched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from controller.sweep.failures import CellFailure
    from controller.sweep.state import CellState


@dataclass(frozen=True, slots=True)
class CollectLog:
    """A server log on the target that is still to be fetched, and where it goes."""

    source: str
    destination: Path

    def as_extra_vars(self) -> dict[str, str]:
        """Return the variables with which restart.yml and stop.yml fetch it."""
        return {"collect_log_src": self.source, "collect_log_dest": str(self.destination)}


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """How a cell ended, and the log that the next playbook should fetch."""

    state: CellState
    failure: CellFailure | None = None
    log: CollectLog | None = None
    fatal: bool = False
    """Going on makes no sense: the target cannot be reached, or Ansible cannot run at all."""


def log_copy(directory: Path, cell_id: str, attempt: int) -> Path:
    """Return where the sweep directory keeps the server log of one launch (absolute: Ansible runs elsewhere)."""
    name = "server.log" if attempt == 1 else f"server-{attempt}.log"
    return (directory / "cells" / cell_id / name).resolve()
