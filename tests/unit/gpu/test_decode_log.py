"""Decode lines of SGLang 0.5.15, in the words of its log on a H200."""

from __future__ import annotations

import pytest

from tests.gpu.decode_log import length_by_steps, stretches

LOG = """\
[2026-11-30 11:58:17] Cache flushed successfully!
[2026-11-30 11:58:17] Prefill batch, #new-seq: 1, #new-token: 157, #cached-token: 0, token usage: 0.00, #running-req: 0
[2026-11-30 11:58:17] Decode batch, #running-req: 1, #token: 294, token usage: 0.00, accept len: 3.00, \
accept rate: 0.78, cuda graph: True, gen throughput (token/s): 25.81, #queue-req: 0
[2026-11-30 11:58:18] Decode batch, #running-req: 3, #token: 276, token usage: 0.00, accept len: 2.00, \
accept rate: 0.58, cuda graph: True, gen throughput (token/s): 480.00, #queue-req: 0
[2026-11-30 11:58:18] Cache flushed successfully!
[2026-11-30 11:55:51] Decode batch, #running-req: 1, #token: 182, token usage: 0.00, cuda graph: True, \
gen throughput (token/s): 500.00, #queue-req: 0
"""


def test_lines_are_told_apart_by_cache_flushes() -> None:
    before, first, second = stretches(LOG)
    assert before == []
    assert [line.after_prefill for line in first] == [True, False]
    assert second[0].length is None
    assert second[0].seconds == pytest.approx(0.08)


def test_a_line_counts_by_the_steps_of_its_requests() -> None:
    _, lines, without = stretches(LOG)
    assert length_by_steps(lines) == pytest.approx((3.0 + 3 * 2.0) / 4)
    assert length_by_steps(without) is None
    assert lines[1].seconds == pytest.approx(40 * 3 * 2.0 / 480)
