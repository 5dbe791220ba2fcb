"""Read the Prometheus text format, as far as a few known names need it (prometheus.io, "Exposition formats")."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: name, labels, value (NaN where the server says so)."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def read_samples(text: str, wanted: Collection[str]) -> list[Sample]:
    """Return the samples of the wanted names, in order; comments and lines that are no sample are skipped.

    Args:
        text: the whole answer of ``/metrics``.
        wanted: full metric names; everything else (most of it buckets of histograms) is not looked at further.
    """
    found = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, brace, rest = line.partition("{")
        if not brace:
            name, _, rest = line.partition(" ")
        if name not in wanted:
            continue
        labels, _, value = rest.rpartition("}") if brace else ("", "", rest)
        words = value.split()
        try:
            number = float(words[0])
        except (IndexError, ValueError):
            continue
        found.append(Sample(name, number, {key: _plain(word) for key, word in _LABEL.findall(labels)}))
    return found


def _plain(value: str) -> str:
    return re.sub(r'\\[\\"n]', lambda match: _ESCAPES[match[0]], value) if "\\" in value else value
