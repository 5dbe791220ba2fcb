"""What is to be deployed, and how a deployment ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.exits import Exit


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be deployed.

    Attributes:
        content: What the inventory is to hold.
        settings: Its variables.
        about: Fields of :class:`~controller.apply.history.Deployment` about the sweep.
    """

    content: str | None
    settings: Mapping[str, Any]
    about: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class End:
    """How a deployment ended: its outcome, sentences for the operator, and how often a server was launched."""

    number: int
    outcome: str
    exit_code: Exit
    sentences: tuple[str, ...]
    launches: int
    canary: Sequence[Mapping[str, Any]] = ()
    file: str = ""
