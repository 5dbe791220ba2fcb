"""Reads ``meta_info`` of ``/generate`` in every wording SGLang has used (0.5.6 to 0.5.23)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Newest name first. 0.5.9 and 0.5.10 have only the old name, 0.5.12 to 0.5.20 both, 0.5.21 and later only the new one.
HISTOGRAM_NAMES = ("spec_correct_drafts_histogram", "spec_accept_histogram")


@dataclasses.dataclass(frozen=True, slots=True)
class GenerationMeta:
    """What the server counted for one answer.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the answer (N).
        verify_steps: Verify steps (V); None without speculation.
        accept_histogram: Element i is the number of verify steps that accepted i draft tokens; None when not reported.
        cached_tokens: Prompt tokens that came from the prefix cache.
        finish_reason: ``length``, ``stop``, ``abort`` ..., or None while the answer is not finished.
        finish_message: What the server said about an abort.
    """

    prompt_tokens: int
    completion_tokens: int
    verify_steps: int | None
    accept_histogram: list[int] | None
    cached_tokens: int
    finish_reason: str | None
    finish_message: str | None


def read_meta(meta: Mapping[str, Any]) -> GenerationMeta:
    """Read a ``meta_info`` object; what is missing or of the wrong kind counts as not reported."""
    finish = meta.get("finish_reason")
    finish_type = finish.get("type") if isinstance(finish, dict) else finish
    message = finish.get("message") if isinstance(finish, dict) else None
    return GenerationMeta(
        prompt_tokens=_count(meta.get("prompt_tokens")) or 0,
        completion_tokens=_count(meta.get("completion_tokens")) or 0,
        verify_steps=_count(meta.get("spec_verify_ct")) or None,
        accept_histogram=next(
            (found for name in HISTOGRAM_NAMES if (found := _histogram(meta.get(name))) is not None), None
        ),
        cached_tokens=_count(meta.get("cached_tokens")) or 0,
        finish_reason=str(finish_type) if finish_type else None,
        finish_message=str(message) if message else None,
    )


def _count(value: object) -> int | None:
    """Return a count, or None for anything that is not a whole number of at least 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _histogram(value: object) -> list[int] | None:
    """Return a histogram of counts, or None."""
    if not isinstance(value, list) or not value:
        return None
    counts = [_count(item) for item in value]
    return None if any(count is None for count in counts) else [count or 0 for count in counts]
