"""Faults that a simulated node shows on demand (key ``faults`` of node.json)."""

from __future__ import annotations

from typing import Any

PHASES = (
    "starting",
    "distributed_init",
    "weights",
    "draft_weights",
    "memory_pool",
    "target_graphs",
    "draft_graphs",
    "warmup",
    "serving",
)

DESCRIPTIONS = {
    "crash_at": 'Phase in which a scheduler raises, "weights" or {"phase": "weights", "rank": 3}: '
    "the cause is in the log, the launcher ends by SIGKILL (status 137).",
    "hang_at": "Phase that never ends. In `serving` requests are accepted and nothing is ever decoded.",
    "orphans": "true: schedulers ignore SIGTERM and outlive a killed launcher, holding their GPU memory.",
    "host_oom": '"scheduler" or "launcher": who is killed by the host\'s OOM killer while the weights are loaded.',
    "dead_draft": "true: the draft model is never right (acceptance length 1.0), as with weights left unwired.",
    "slow_first_requests": '{"count": 3, "factor": 2.5}: the first requests after a launch take so much longer.',
    "drift": "Relative slow-down added by each request served, for example 0.002.",
    "lucky_launch": '{"launch": 3, "factor": 0.64}: this one launch takes so much of the usual time.',
}


class Faults:
    """The faults of one node.

    Raises:
        ValueError: an unknown fault, phase or value; the sentence names it.
    """

    def __init__(
        self,
        *,
        crash_phase: str | None = None,
        crash_rank: int = 0,
        hang_phase: str | None = None,
        orphans: bool = False,
        host_oom: str | None = None,
        dead_draft: bool = False,
        slow_first_count: int = 0,
        slow_first_factor: float = 1.0,
        drift: float = 0.0,
        lucky_launch: int = 0,
        lucky_factor: float = 1.0,
    ) -> None:
        self.crash_phase = crash_phase
        self.crash_rank = crash_rank
        self.hang_phase = hang_phase
        self.orphans = orphans
        self.host_oom = host_oom
        self.dead_draft = dead_draft
        self.slow_first_count = slow_first_count
        self.slow_first_factor = slow_first_factor
        self.drift = drift
        self.lucky_launch = lucky_launch
        self.lucky_factor = lucky_factor

    @classmethod
    def from_dict(cls, faults: dict[str, Any]) -> Faults:
        """Check and read the ``faults`` mapping of node.json."""
        for name in faults:
            if name not in DESCRIPTIONS:
                raise ValueError(f"Unknown fault {name!r} for a simulated node; known are {', '.join(DESCRIPTIONS)}.")
        crash = faults.get("crash_at")
        crash = {"phase": crash} if crash is None or isinstance(crash, str) else crash
        slow_first = faults.get("slow_first_requests") or {}
        lucky = faults.get("lucky_launch") or {}
        host_oom = faults.get("host_oom") or None
        if host_oom not in (None, "scheduler", "launcher"):
            raise ValueError(f'Fault host_oom is {host_oom!r}; it must be "scheduler" or "launcher".')
        return cls(
            crash_phase=_phase("crash_at", crash.get("phase")),
            crash_rank=int(crash.get("rank", 0)),
            hang_phase=_phase("hang_at", faults.get("hang_at")),
            orphans=bool(faults.get("orphans", False)),
            host_oom=host_oom,
            dead_draft=bool(faults.get("dead_draft", False)),
            slow_first_count=int(slow_first.get("count", 0)),
            slow_first_factor=float(slow_first.get("factor", 1.0)),
            drift=float(faults.get("drift", 0.0)),
            lucky_launch=int(lucky.get("launch", 0)),
            lucky_factor=float(lucky.get("factor", 1.0)),
        )


def _phase(fault: str, phase: str | None) -> str | None:
    if phase is not None and phase not in PHASES:
        raise ValueError(f"Fault {fault} names the phase {phase!r}; known are {', '.join(PHASES)}.")
    return phase
