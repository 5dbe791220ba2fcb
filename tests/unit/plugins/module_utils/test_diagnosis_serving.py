"""What decode lines say about speculation when a log has only a few of them."""

from __future__ import annotations

import io

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import diagnose_file

READY = "[2026-01-01 00:06:10] The server is fired up and ready to roll!\n"
DECODE = "[2026-01-01 00:07:00 TP0] Decode batch, #running-req: 1, #token: 9, accept len: {}, accept rate: 0.00, x\n"


@pytest.mark.parametrize(
    ("lengths", "failure_class", "confidence"),
    [
        ([1.0], "healthy", "high"),
        ([1.0, 1.0], "draft-unwired", "medium"),
        ([1.0, 1.0, 1.0], "draft-unwired", "medium"),
        ([1.0, 1.0, 1.0, 1.0], "draft-unwired", "high"),
        ([2.8, 1.0], "healthy", "high"),
        ([1.0, 2.8], "healthy", "high"),
        # The first line of a server covers its idle time.
        ([1.0, 2.8, 2.8, 2.8], "healthy", "high"),
    ],
)
def test_few_lines_count_only_when_nothing_was_accepted(
    lengths: list[float], failure_class: str, confidence: str
) -> None:
    text = READY + "".join(DECODE.format(f"{length:.2f}") for length in lengths)
    found = diagnose_file(io.BytesIO(text.encode()))
    assert (found.failure_class, found.confidence) == (failure_class, confidence)
