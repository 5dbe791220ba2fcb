"""What the server itself says about a run: its gauge of the acceptance length, and the lines it logs about decoding."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
import threading
import urllib.request
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

EVERY_S = 0.2
GAUGE = re.compile(r"^sglang:spec_accept_length\{[^}]*\} (?P<value>[\d.eE+-]+)$", re.MULTILINE)
# srt/managers/scheduler_components/metrics_reporter.py of 0.5.15; without speculation there is no "accept len".
DECODE = re.compile(
    r"Decode batch.*?#running-req: (?P<running>\d+)"
    r"(?:.*?accept len: (?P<length>[\d.]+))?"
    r".*?gen throughput \(token/s\): (?P<rate>[\d.]+)"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """What the server said while a run lasted.

    Attributes:
        gauge: Mean of the values that ``sglang:spec_accept_length`` showed; None without speculation or metrics.
        logged_length: Mean of ``accept len`` over the decode lines; None without speculation or log.
        logged_rate: ``gen throughput`` over all decode lines but the first, tokens/s, pauses between requests included;
            None without a log.
        lines: Decode lines read.
    """

    gauge: float | None
    logged_length: float | None
    logged_rate: float | None
    lines: int


class Witness:
    """Reads ``/metrics`` every 0.2 s and, at the end, what the log grew by. Use it around a run."""

    def __init__(self, url: str, log: Path | None) -> None:
        self._url = url
        self._log = log
        self._offset = 0
        self._values: list[float] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._offset = self._log.stat().st_size if self._log else 0
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()

    def account(self) -> Account:
        """Return what was said since the begin."""
        text = ""
        if self._log:
            with self._log.open("rb") as stream:
                stream.seek(self._offset)
                text = stream.read().decode(errors="replace")
        lines = decode_lines(text)
        lengths = [length for _, length, _ in lines if length is not None]
        # Each line stands for the same number of forward passes, that is for running x length tokens. The first one
        # counts from the end of the run before and holds the pause between the two.
        made = [(running * (length or 1.0), rate) for running, length, rate in lines[1:] if rate > 0]
        seconds = sum(tokens / rate for tokens, rate in made)
        return Account(
            gauge=statistics.fmean(self._values) if self._values else None,
            logged_length=statistics.fmean(lengths) if lengths else None,
            logged_rate=sum(tokens for tokens, _ in made) / seconds if made else None,
            lines=len(lines),
        )

    def _watch(self) -> None:
        before = self._read()  # of the run before
        while not self._stopped.wait(EVERY_S):
            value = self._read()
            if value is not None and value > 0 and value != before:
                self._values.append(value)
                before = value

    def _read(self) -> float | None:
        try:
            with urllib.request.urlopen(f"{self._url}/metrics", timeout=5) as answer:  # noqa: S310 - the operator's
                return gauge(answer.read().decode())
        except OSError:
            return None


def gauge(text: str) -> float | None:
    """Return the acceptance length out of ``/metrics``: the first rank's that is a number."""
    values = (float(match["value"]) for match in GAUGE.finditer(text))
    return next((value for value in values if math.isfinite(value)), None)


def decode_lines(text: str) -> list[tuple[int, float | None, float]]:
    """Return (requests running, acceptance length, tokens/s) of each decode line."""
    return [
        (int(found["running"]), float(found["length"]) if found["length"] else None, float(found["rate"]))
        for found in map(DECODE.search, text.splitlines())
        if found
    ]
