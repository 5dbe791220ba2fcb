"""Counters of SGLang's ``/metrics``, recorded over time: writing, reading, and what happened between two moments.

Read from srt/observability/metrics_collector.py and srt/managers/tokenizer_manager.py of 0.5.15: the counters of tokens
and verify steps grow when an answer ends, ``inter_token_latency_seconds`` with each chunk after the first.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAMES = {
    "generated": "sglang:generation_tokens_total",
    "verify_steps": "sglang:spec_verify_calls_total",
    "requests": "sglang:num_requests_total",
    "decode_s": "sglang:inter_token_latency_seconds_sum",
    "accept_length": "sglang:spec_accept_length",
}
_LINE = re.compile(r"^(?P<name>[a-z_:]+)(?:\{[^}]*\})? (?P<value>[-+\d.eE]+|NaN)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """What a server counted; also a difference of two such counts.

    Attributes:
        generated: Tokens of finished answers.
        verify_steps: Verify steps of finished answers; 0 without speculation.
        requests: Finished answers.
        decode_s: Seconds after the first chunk of each answer, on the server's clock.
    """

    generated: float
    verify_steps: float
    requests: float
    decode_s: float

    def since(self, before: Counts) -> Counts:
        """Return what was counted after ``before``."""
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(before), strict=True)
        return Counts(*(now - then for now, then in pairs))


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One reading. ``at`` is the time of day in seconds; ``accept_length`` the gauge of that moment."""

    at: float
    counts: Counts
    accept_length: float


def parse(text: str, at: float) -> Sample:
    """Read an answer of ``/metrics``; what it does not name is 0."""
    wanted = {name: key for key, name in NAMES.items()}
    values = dict.fromkeys(NAMES, 0.0)
    for match in _LINE.finditer(text):
        key = wanted.get(match["name"])
        if key and match["value"] != "NaN":
            values[key] += float(match["value"])
    length = values.pop("accept_length")
    return Sample(at, Counts(**values), length)


def line(sample: Sample) -> str:
    """Return a sample as a line of the record."""
    return json.dumps(dataclasses.asdict(sample)) + "\n"


def read(path: Path) -> list[Sample]:
    """Read a record; a last line that was cut off is left out."""
    found = []
    for text in path.read_text().splitlines():
        try:
            values = json.loads(text)
        except ValueError:
            continue
        found.append(Sample(values["at"], Counts(**values["counts"]), values["accept_length"]))
    return found


def between(samples: Iterable[Sample], begin: float, end: float) -> Counts | None:
    """Return what one server counted from ``begin`` until everything up to ``end`` was counted.

    The last answer may be counted a moment after its client has it, so the last sample of the same launch counts, as
    long as it is the same load: nothing may be counted between the runs of a launch and its end.
    """
    before = after = None
    for sample in samples:
        if sample.at <= begin:
            before = sample
        elif before is None:
            return None
        else:
            if sample.counts.requests < (after or before).counts.requests:
                break  # the next launch counts from 0
            after = sample
            if sample.at > end + 1.0:
                break
    return after.counts.since(before.counts) if before and after else None
