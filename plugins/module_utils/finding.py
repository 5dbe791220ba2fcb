"""One thing that a check found, with what it means and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A finding; `severity` is error (SGLang fails, or the result is worthless) or warning (look at it)."""

    id: str
    severity: str
    message: str
    remedy: str

    def __str__(self) -> str:
        """The finding as one sentence."""
        return f"{self.message}: {self.remedy}."


def error(identifier: str, message: str, remedy: str) -> Finding:
    """A finding that makes the launch fail or its result worthless."""
    return Finding(identifier, "error", message, remedy)


def warning(identifier: str, message: str, remedy: str) -> Finding:
    """A finding that deserves a look."""
    return Finding(identifier, "warning", message, remedy)
