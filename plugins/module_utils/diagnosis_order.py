"""Tell whether a log is printed newest first, as some log collectors do, and turn it round (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Sequence

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_lines import LogLine

_TRACEBACK = "Traceback (most recent call last)"


def oldest_first(lines: Sequence[LogLine]) -> List[LogLine]:
    """Return the lines oldest first."""
    return list(reversed(lines)) if is_newest_first(lines) else list(lines)


def is_newest_first(lines: Sequence[LogLine]) -> bool:
    """Say whether the stamps fall more often than they rise; without stamps a traceback's own order decides."""
    balance = sum(_balance([getattr(line, stamp) for line in lines]) for stamp in ("time", "collected"))
    if balance != 0:
        return balance < 0
    return _traceback_balance(lines) < 0


def _balance(stamps: Sequence[str]) -> int:
    balance = 0
    before = ""
    for stamp in stamps:
        if not stamp or stamp.startswith("gpu_id"):
            continue
        if before and len(before) == len(stamp):
            balance += (stamp > before) - (stamp < before)
        before = stamp
    return balance


def _traceback_balance(lines: Sequence[LogLine]) -> int:
    """A traceback's heading stands right above its first frame; newest first, right below it."""
    balance = 0
    for index, line in enumerate(lines):
        if _TRACEBACK not in line.message:
            continue
        above = [_is_frame(other) for other in lines[max(0, index - 2) : index]]
        below = [_is_frame(other) for other in lines[index + 1 : index + 3]]
        balance += any(below) - any(above)
    return balance


def _is_frame(line: LogLine) -> bool:
    return line.message.lstrip().startswith('File "')
