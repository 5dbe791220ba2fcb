"""Break-even: how many tokens a verify cycle must yield so that speculation is as fast as plain decoding.

With k draft steps the acceptance length lies between 1 and k + 1. When every position is accepted with the same
probability a, L = (1 - a^(k+1)) / (1 - a) = 1 + a + ... + a^k (Leviathan et al., arXiv 2211.17192, equation 1).
Speculation pays iff L > L* = C / T1.
"""

from __future__ import annotations

import dataclasses
import math

LARGEST_STEPS = 64
SLOWEST_MS = 3_600_000.0


class BreakevenError(ValueError):
    """An input cannot be a time or a number of steps. The message says which and what is expected."""


@dataclasses.dataclass(frozen=True, slots=True)
class BreakevenStep:
    """What one step count needs."""

    steps: int
    largest_length: float  # k + 1
    can_pay: bool
    needed_acceptance: float | None  # equal per position; None when it cannot pay


@dataclasses.dataclass(frozen=True, slots=True)
class Breakeven:
    """The answer of ``breakeven``. Times in milliseconds."""

    decode_ms: float
    cycle_ms: float
    break_even_length: float
    steps: tuple[BreakevenStep, ...]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {"schema": 1, **dataclasses.asdict(self), "steps": [dataclasses.asdict(step) for step in self.steps]}


def breakeven(decode_ms: float, cycle_ms: float, max_steps: int = 8) -> Breakeven:
    """Return L* and, for 1 to ``max_steps`` steps, the acceptance that reaches it.

    The cycle time is held: a real one grows with the steps, so measure it for each step count before believing a row.

    Args:
        decode_ms: T1, milliseconds of one decode step without speculation.
        cycle_ms: C, milliseconds of one draft-and-verify cycle.
        max_steps: Largest speculative-num-steps to answer for.

    Raises:
        BreakevenError: a time is not a positive number of at most an hour, or the steps are not in 1 to 64.
    """
    decode = _milliseconds("decode time", decode_ms)
    cycle = _milliseconds("cycle time", cycle_ms)
    if type(max_steps) is not int or not 1 <= max_steps <= LARGEST_STEPS:  # True is no number of steps
        message = f"The largest number of steps is {max_steps!r}; expected a whole number from 1 to {LARGEST_STEPS}."
        raise BreakevenError(message)
    needed = cycle / decode
    return Breakeven(
        decode_ms=decode,
        cycle_ms=cycle,
        break_even_length=needed,
        steps=tuple(
            BreakevenStep(
                steps=steps,
                largest_length=steps + 1.0,
                can_pay=can_pay(needed, steps),
                needed_acceptance=equal_acceptance(needed, steps),
            )
            for steps in range(1, max_steps + 1)
        ),
    )


def can_pay(needed_length: float, steps: int) -> bool:
    """Return whether any acceptance could reach ``needed_length``: L is at most steps + 1."""
    return needed_length <= steps + 1


def length_of(acceptance: float, steps: int) -> float:
    """Return L when every position is accepted with probability ``acceptance`` (0 to 1)."""
    return math.fsum(acceptance**position for position in range(steps + 1))


def equal_acceptance(length: float, steps: int) -> float | None:
    """Return the equal acceptance per position at which L = ``length``; 0 for lengths up to 1, None above steps + 1."""
    if not length <= steps + 1:
        return None
    if length <= 1 or steps < 1:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):  # halves the error each time: exact to the last bit of a float
        middle = (low + high) / 2
        low, high = (middle, high) if length_of(middle, steps) < length else (low, middle)
    return (low + high) / 2


def _milliseconds(what: str, value: float) -> float:
    """Return a checked time."""
    if type(value) not in {int, float} or not math.isfinite(value):
        message = f"The {what} is {value!r}; expected milliseconds as a number."
        raise BreakevenError(message)
    if not 0 < value <= SLOWEST_MS:
        message = f"The {what} is {value:g} ms; expected more than 0 and at most one hour."
        raise BreakevenError(message)
    return float(value)
