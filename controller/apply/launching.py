"""One run of a playbook that is to bring a server up, and what its end means for the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.sweep.failures import from_playbook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.playbooks import PlaybookRun

TOUCHES_THE_SERVER = frozenset({"sglang_process", "systemd_service", "template", "sglang_health"})
"""Modules that only run once the old launch is, or may be, over (roles sglang_server and sglang_health)."""


@dataclass(frozen=True, slots=True)
class Launched:
    """How a launch ended.

    Attributes:
        health: What module ``sglang_health`` said of the server.
        trouble: Why no healthy server runs, in one sentence; empty when one does.
        touched: Whether the server that ran before may be gone.
        cancelled: Whether the operator interrupted it.
        unreachable: Whether the target could not be reached.
    """

    health: Mapping[str, Any]
    trouble: str
    touched: bool
    cancelled: bool = False
    unreachable: bool = False

    @classmethod
    def from_run(cls, played: PlaybookRun) -> Launched:
        """Read the end of a playbook."""
        health = played.results.get("sglang_health", {})
        cancelled = played.status == "cancelled"
        trouble = ""
        if not played.ok or not health.get("ready"):
            trouble = played.sentence if cancelled else from_playbook(played).sentence
        modules = {task.module.rpartition(".")[2] for task in played.tasks}
        return cls(
            health=health,
            trouble=trouble.rstrip("."),
            # A cancelled run may have been in the middle of a task that has no end.
            touched=cancelled or bool(modules & TOUCHES_THE_SERVER),
            cancelled=cancelled,
            unreachable=played.status == "unreachable",
        )
