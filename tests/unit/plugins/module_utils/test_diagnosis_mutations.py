"""Damaged logs never raise. DIAGNOSIS_MUTATIONS sets how many are tried (10,000 for a release)."""

from __future__ import annotations

import io
import os
from pathlib import Path

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import CLASSES
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import CONFIDENCES
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import diagnose_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LOGS = [path.read_bytes() for path in sorted((Path(__file__).parents[3] / "data" / "diagnosis").glob("*.log"))]
MUTATIONS = int(os.environ.get("DIAGNOSIS_MUTATIONS", "1000"))

PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"\r",
            b"\n",
            b"\x1b[31m",
            b"\x1b]0;",
            b"\xff\xfe",
            b"\0",
            b"[",
            b"] ",
            b'{"log":"',
            b"sglang-1  | ",
            b"[2026-99-99 99:99:99 TP0] ",
            b"accept len: 1e999, accept rate: .",
            b"Traceback (most recent call last):\n",
            b"(pid=",
            b" [repeated 2x across cluster]",
        ]
    ),
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A log, cut, doubled, turned round, mixed with another, with bytes put in and taken out."""
    log = draw(st.sampled_from(LOGS))
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(0, len(log)))
        kind = draw(st.integers(0, 6))
        if kind == 0:
            log = log[:where] + draw(PIECES) + log[where:]
        elif kind == 1:
            log = log[:where]
        elif kind == 2:
            log = log[where:]
        elif kind == 3:
            log = log[:where] + log[where + draw(st.integers(1, 80)) :]
        elif kind == 4:
            log = b"\n".join(reversed(log.split(b"\n")))
        elif kind == 5:
            log += draw(st.sampled_from(LOGS))
        else:
            log = b"\n".join(draw(PIECES) + line for line in log.split(b"\n"))
    return log


@settings(max_examples=MUTATIONS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(mutated())
def test_a_damaged_log_is_diagnosed(log: bytes) -> None:
    diagnosis = diagnose_file(io.BytesIO(log))
    assert diagnosis.failure_class in CLASSES
    assert diagnosis.confidence in CONFIDENCES
    assert diagnosis.remedy
