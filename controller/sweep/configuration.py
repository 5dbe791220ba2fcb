"""What a sweep runs on, and whether it is still the same: packages, models, GPUs, driver, command lines.

Figures of two configurations are not pooled silently. While a sweep runs, a launch that differs fails its cell; a
resumed sweep is refused with the difference shown, or goes on with ``--accept-changes`` and says so in its report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.exits import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHOWN = 4
"""Differences named in a sentence; the journal keeps all."""
LONGEST_VALUE = 40


class ConfigurationChangedError(InputError):
    """The configuration is not the one that the sweep began with."""


@dataclass(slots=True)
class Configuration:
    """What the launches so far had in common.

    Attributes:
        node: Name and value of everything that module ``launch_conditions`` found: packages, hashes, GPUs, driver.
        launches: Launch record (fingerprint, command line) of each arm.
    """

    node: dict[str, str] = field(default_factory=dict)
    launches: dict[str, dict[str, Any]] = field(default_factory=dict)

    def learn(self, arm: str, launch: Mapping[str, Any], node: Mapping[str, str]) -> None:
        """Keep what is seen for the first time."""
        self.learn_node(node)
        if launch.get("fingerprint") or launch.get("argv"):
            self.launches.setdefault(arm, {"fingerprint": launch.get("fingerprint"), "argv": launch.get("argv")})

    def learn_node(self, node: Mapping[str, str]) -> None:
        """Keep what is seen of the node for the first time."""
        for name, value in node.items():
            self.node.setdefault(name, value)

    def accept(self, arm: str | None, launch: Mapping[str, Any], node: Mapping[str, str]) -> None:
        """Take what is there now for the configuration from here on."""
        self.node.update(node)
        if arm is not None:
            self.launches.pop(arm, None)
            self.learn(arm, launch, node)

    def node_differences(self, node: Mapping[str, str]) -> list[str]:
        """Return what of the node is not as it was; what is seen for the first time differs from nothing."""
        return [
            f"{name} was {_short(self.node[name])}, is {_short(value)}"
            for name, value in sorted(node.items())
            if self.node.get(name, value) != value
        ]

    def launch_differences(self, arm: str, launch: Mapping[str, Any]) -> list[str]:
        """Return how a launch of an arm differs from the earlier ones of that arm."""
        before = self.launches.get(arm)
        if before is None:
            return []
        words = _words_differ(before.get("argv") or [], launch.get("argv") or [])
        if words:
            return [f"the command of arm {arm}: {words}"]
        old, new = before.get("fingerprint"), launch.get("fingerprint")
        if old and new and old != new:
            return [f"the environment, draft model or an NCCL file of arm {arm}"]
        return []


def sentence(differences: Sequence[str]) -> str:
    """Return the differences as one part of a sentence."""
    more = f"; and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
    return "; ".join(differences[:SHOWN]) + more


def refuse(differences: Sequence[str], again: str) -> ConfigurationChangedError:
    """Return the refusal to mix configurations.

    Args:
        differences: What changed.
        again: The command that resumes the sweep.
    """
    return ConfigurationChangedError(
        f"the sweep began with another configuration: {sentence(differences)}. Its launches are not pooled with new "
        f"ones; undo the change, start a new sweep, or mix them knowingly with: {again} --accept-changes"
    )


def _words_differ(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the words that only one of two command lines has; empty when one of them is not known."""
    if not before or not after or list(before) == list(after):
        return ""
    gone = [word for word in before if word not in after]
    new = [word for word in after if word not in before]
    parts = [f"without {' '.join(gone)}"] if gone else []
    parts += [f"with {' '.join(new)}"] if new else []
    return ", ".join(parts) or "its words in another order"


def _short(value: str) -> str:
    return value if len(value) <= LONGEST_VALUE else f"{value[:12]}…{value[-12:]}"
