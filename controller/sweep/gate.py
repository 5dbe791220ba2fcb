"""Keeps launches of two configurations apart: what changed is refused, fails its cell, or is taken in knowingly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.paths import display
from controller.redaction import redact
from controller.sweep.configuration import Configuration, refuse, sentence
from controller.sweep.entries import record_cell
from controller.sweep.failures import CellFailure
from controller.sweep.state import CellState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from controller.journal import Journal
    from controller.plan import Cell
    from controller.sweep.ports import Watcher


@dataclass(slots=True)
class ConfigurationGate:
    """Compares each launch on one host with those before it.

    Attributes:
        directory: The sweep's, for the command in a refusal.
        configuration: What the launches so far had in common.
        resumed: Launches of an earlier run are in the journal: then a change is refused, not a failed cell.
        accept_changes: Take a change of the configuration into the sweep, and say so in the journal.
    """

    directory: Path
    journal: Journal
    watcher: Watcher
    configuration: Configuration = field(default_factory=Configuration)
    resumed: bool = False
    accept_changes: bool = False
    _node_compared: bool = False

    @property
    def wants_node(self) -> bool:
        """Whether the node must be compared before anything is launched: once, and only in a resumed sweep."""
        return self.resumed and bool(self.configuration.node) and not self._node_compared

    def compare_node(self, cell: Cell, attempt: int, identity: Mapping[str, str]) -> None:
        """Before the first launch of a resumed sweep: refuse a node that is not the one the sweep began on.

        Raises:
            ConfigurationChangedError: it differs, and the operator has not accepted that.
        """
        self._node_compared = True
        self._accept_or_refuse(cell, attempt, self.configuration.node_differences(identity), None, {}, identity)

    def compare_launch(
        self, cell: Cell, attempt: int, launch: Mapping[str, Any], identity: Mapping[str, str]
    ) -> CellFailure | None:
        """Refuse to pool launches whose packages, models, GPUs, command or environment changed meanwhile.

        Returns:
            The failure of the cell when the change came while the sweep ran; None when nothing differs.

        Raises:
            ConfigurationChangedError: a resumed sweep finds another configuration that nobody accepted.
        """
        differences = [
            *self.configuration.node_differences(identity),
            *self.configuration.launch_differences(cell.arm, launch),
        ]
        if differences and self.resumed:
            self._accept_or_refuse(cell, attempt, differences, cell.arm, launch, identity)
            return None
        self.configuration.learn(cell.arm, launch, identity)
        if not differences:
            return None
        return CellFailure(
            "configuration_changed",
            f"the configuration changed while the sweep ran: {sentence(differences)}. Such launches are not pooled; "
            "undo the change and resume, or start a new sweep.",
            {"differences": differences},
        )

    def _accept_or_refuse(  # noqa: PLR0917 - what changed, and what is to be remembered instead
        self,
        cell: Cell,
        attempt: int,
        differences: list[str],
        arm: str | None,
        launch: Mapping[str, Any],
        identity: Mapping[str, str],
    ) -> None:
        if not differences:
            return
        if not self.accept_changes:
            record_cell(self.journal, cell, attempt, CellState.ABANDONED, reason="configuration changed")
            raise refuse(differences, f"python -m controller sweep --resume {display(self.directory)}")
        self.journal.append(
            "accepted", cell=cell.cell_id, arm=arm, differences=differences, launch=redact(launch), identity=identity
        )
        self.configuration.accept(arm, launch, identity)
        self.watcher.note(f"going on although the configuration changed: {sentence(differences)}")
        # This launch belongs to what comes after the change.
        record_cell(self.journal, cell, attempt, CellState.LAUNCHING)
