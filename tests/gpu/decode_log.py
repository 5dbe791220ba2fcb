"""What SGLang logs about decoding, as figures: its ``Decode batch`` lines in stretches between two cache flushes.

Read from srt/managers/scheduler_components/metrics_reporter.py of 0.5.15. A line comes after every 40 decode steps
(``--decode-log-interval``). ``accept len`` is the tokens made in these steps by step and request; ``gen throughput`` is
the same tokens by the time since the line before, pauses and prefills included. ``/flush_cache`` starts the count anew.
"""

from __future__ import annotations

import dataclasses
import re

INTERVAL = 40
DECODE = re.compile(
    r"Decode batch.*?#running-req: (?P<running>\d+)"
    r"(?:.*?accept len: (?P<length>[\d.]+))?"  # missing without speculation
    r".*?gen throughput \(token/s\): (?P<rate>[\d.]+)"
)
FLUSHED = "Cache flushed successfully!"


@dataclasses.dataclass(frozen=True, slots=True)
class DecodeLine:
    """One line.

    Attributes:
        running: Requests running when it was written.
        length: Acceptance length; None without speculation.
        rate: Tokens/s since the line before.
        after_prefill: Whether a prefill, and perhaps a pause, lies between it and the line before.
    """

    running: int
    length: float | None
    rate: float
    after_prefill: bool = False

    @property
    def tokens(self) -> float:
        """Tokens made, if the requests that ran at the end ran all the time."""
        return INTERVAL * self.running * (self.length or 1.0)

    @property
    def seconds(self) -> float:
        """Time since the line before, exact where one request ran."""
        return self.tokens / self.rate if self.rate else 0.0


def stretches(text: str) -> list[list[DecodeLine]]:
    """Return the decode lines before the first cache flush, after it, after the second, and so on."""
    found: list[list[DecodeLine]] = [[]]
    prefilled = False
    for line in text.splitlines():
        if FLUSHED in line:
            found.append([])
            prefilled = True
        elif "Prefill batch" in line:
            prefilled = True
        elif match := DECODE.search(line):
            length = float(match["length"]) if match["length"] else None
            found[-1].append(DecodeLine(int(match["running"]), length, float(match["rate"]), prefilled))
            prefilled = False
    return found


def length_by_steps(lines: list[DecodeLine]) -> float | None:
    """Return the acceptance length over all steps of all lines: each line counts by its request-steps."""
    some = [(line.running, line.length) for line in lines if line.length is not None and line.running]
    steps = sum(running for running, _ in some)
    return sum(running * length for running, length in some) / steps if steps else None
