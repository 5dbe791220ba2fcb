"""What a deployment needs from the rest: somebody who watches, and a proof of the server that it launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.apply.canary import LevelResult


class DeploymentWatcher(Protocol):
    """Is told what happens, to show it. Every call returns at once."""

    def began(self, title: str) -> None:
        """A deployment is in the history and begins."""

    def step(self, text: str) -> None:
        """It does the next thing."""

    def phase(self, name: str) -> None:
        """The server entered a phase of its start."""

    def tokens(self, count: int, seconds: float) -> None:
        """Tokens that the canary received so far, and unscaled seconds since it began."""

    def note(self, text: str) -> None:
        """Something the operator must know."""

    def ended(self, state: str, text: str) -> None:
        """It ended: ``applied``, ``rolled back`` or ``failed``."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a canary found."""

    levels: Sequence[LevelResult]
    notes: Sequence[str] = ()

    @property
    def objections(self) -> list[str]:
        """Why the server must not stay."""
        return [text for level in self.levels for text in level.objections]


class Prover(Protocol):
    """Measures a server that was just launched."""

    def __call__(self, health: Mapping[str, Any], watcher: DeploymentWatcher) -> Proof:
        """Return what was found.

        Raises:
            StopAskedError: the operator asked to stop meanwhile.
        """
