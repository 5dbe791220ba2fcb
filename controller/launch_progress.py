"""How far a launch is: what ``sglang_health`` says about it while it waits. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


GRACE_S = 5.0
"""How much longer than before is not worth a word: the stamps in the server's log have a resolution of one second."""


@dataclass(frozen=True, slots=True)
class LaunchProgress:
    """One look at a launch. Seconds count from that look and come from earlier launches; None without any.

    Attributes:
        phase: Phase of the start.
        phase_left_s: Until the phase is probably over.
        ready_in_s: Until the server is probably ready.
        shards: Files of weights loaded and to load; None in a phase without.
    """

    phase: str
    phase_left_s: float | None = None
    ready_in_s: float | None = None
    shards: tuple[int, int] | None = None

    def words(self, waited_s: float = 0.0) -> str:
        """Return what to say behind the phase's name, ``waited_s`` after the look; empty when nothing is known.

        A phase that takes longer than it did before says so, and then nothing is promised any more.
        """
        parts = [f"{self.shards[0]} of {self.shards[1]} shards"] if self.shards and self.shards[1] > 1 else []
        if self.phase_left_s is not None and self.ready_in_s is not None:
            left_s = self.phase_left_s - waited_s
            if left_s < -GRACE_S:
                parts.append("longer than before")
            elif left_s >= 0.5:
                parts.append(f"about {duration(left_s)} left")
                if self.ready_in_s - self.phase_left_s >= 1:
                    parts.append(f"ready in about {duration(self.ready_in_s - waited_s)}")
        return "".join(f", {part}" for part in parts)

    def at_later_look(self, later: Self) -> Self:
        """Return the later look at the same phase with the estimates of this one, which count on from here.

        Estimates end at zero, so those of a later look would not show that a phase takes longer than before.
        """
        return replace(later, phase_left_s=self.phase_left_s, ready_in_s=self.ready_in_s)


def read_progress(result: Mapping[str, Any]) -> LaunchProgress | None:
    """Read a result of ``sglang_health``; None when it names no phase."""
    phase = result.get("phase")
    if not isinstance(phase, str) or not phase:
        return None
    shards = result.get("shards")
    counts = (shards.get("done"), shards.get("total")) if isinstance(shards, dict) else (None, None)
    return LaunchProgress(
        phase=phase,
        phase_left_s=_seconds(result.get("phase_left_s")),
        ready_in_s=_seconds(result.get("eta_s")),
        shards=counts if all(isinstance(count, int) for count in counts) else None,  # type: ignore[arg-type]
    )


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
