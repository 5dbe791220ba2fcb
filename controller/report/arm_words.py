"""What tables and charts say of an arm in the same words wherever they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.report.numbers import plain

if TYPE_CHECKING:
    from controller.analysis.result import ArmAnalysis


def verdict_word(arm: ArmAnalysis) -> str:
    """Return the verdict; ``baseline`` for the arm that has none."""
    return "baseline" if arm.verdict is None else arm.verdict.value


def launches_words(arm: ArmAnalysis) -> str:
    """Return ``3``, or ``3 (1 failed)``."""
    return f"{arm.launches} ({arm.failed_launches} failed)" if arm.failed_launches else str(arm.launches)


def ttft_words(arm: ArmAnalysis) -> str:
    """Return median and 99th percentile of the time to first token in milliseconds, or a dash."""
    return f"{plain(arm.ttft.p50_s * 1000, 0)}, {plain(arm.ttft.p99_s * 1000, 0)}" if arm.ttft else "-"
