"""What the server itself says about a run: its gauge of the acceptance length, and the lines it logs about decoding."""

from __future__ import annotations

import dataclasses
import statistics
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, Self

from tests.gpu.decode_log import length_by_steps, stretches
from tests.gpu.metrics_record import Sample, parse

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

EVERY_S = 0.05
"""A decode line comes every 40 steps, 0.1 s apart and more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """What the server said while a run lasted.

    Attributes:
        counted_length: L = (tokens - answers) / verify steps by the counters of ``/metrics``: exact, and the same
            definition as ours; None without speculation or metrics.
        logged_length: ``accept len`` over all steps of the decode lines; None without speculation or log. It counts
            what the step after each answer's last accepted too, and leaves out up to 39 steps at the end.
        gauge: Mean of the values seen of ``sglang:spec_accept_length``. The gauge holds the last decode line's value
            only, so what is seen in time is a sample of the lines; None without speculation or metrics.
        gauge_seen: How many such values were seen.
        logged_rate: ``gen throughput`` over all decode lines but the first, tokens/s, pauses between requests included;
            None without a log.
        lines: Decode lines read.
    """

    counted_length: float | None
    logged_length: float | None
    gauge: float | None
    gauge_seen: int
    logged_rate: float | None
    lines: int


class Witness:
    """Reads ``/metrics`` all the time and, at the end, what the log grew by. Use it around a run."""

    def __init__(self, url: str, log: Path | None) -> None:
        self._url = url
        self._log = log
        self._offset = 0
        self._values: list[float] = []
        self._before: Sample | None = None
        self._after: Sample | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._before = self._read()
        self._offset = self._log.stat().st_size if self._log else 0
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()
        self._after = self._read()

    def account(self) -> Account:
        """Return what was said since the begin."""
        text = ""
        if self._log:
            with self._log.open("rb") as stream:
                stream.seek(self._offset)
                text = stream.read().decode(errors="replace")
        lines = stretches(text)[-1]
        # The first line counts from the end of the run before and holds the pause between the two.
        timed = [line for line in lines[1:] if line.rate > 0]
        seconds = sum(line.seconds for line in timed)
        return Account(
            counted_length=counted_length(self._before, self._after),
            logged_length=length_by_steps(lines),
            gauge=statistics.fmean(self._values) if self._values else None,
            gauge_seen=len(self._values),
            logged_rate=sum(line.tokens for line in timed) / seconds if seconds else None,
            lines=len(lines),
        )

    def _watch(self) -> None:
        before = self._before.accept_length if self._before else None
        while not self._stopped.wait(EVERY_S):
            sample = self._read()
            if sample and sample.accept_length > 0 and sample.accept_length != before:
                before = sample.accept_length
                self._values.append(before)

    def _read(self) -> Sample | None:
        try:
            with urllib.request.urlopen(f"{self._url}/metrics", timeout=5) as answer:  # noqa: S310 - the operator's
                return parse(answer.read().decode(), time.time())
        except OSError:
            return None


def counted_length(before: Sample | None, after: Sample | None) -> float | None:
    """Return (tokens - answers) / verify steps between two readings; None when nothing was verified."""
    if before is None or after is None:
        return None
    counts = after.counts.since(before.counts)
    return (counts.generated - counts.requests) / counts.verify_steps if counts.verify_steps else None
