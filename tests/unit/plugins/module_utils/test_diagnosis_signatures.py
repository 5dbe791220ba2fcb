"""Every signature by itself: its example, and what must not match."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import CLASSES
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import CONFIDENCES, FOLLOWS, Signature
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import LogReader
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_signatures import (
    SIGNATURES,
    is_harmless,
    match,
)

LOGS = Path(__file__).parents[3] / "data" / "diagnosis"


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.identifier)
def test_example_matches_its_class(signature: Signature) -> None:
    found = match(signature.example, signature.phases[0] if signature.phases else "starting")
    assert found is not None
    assert found.failure_class == signature.failure_class


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.identifier)
def test_entry_is_complete(signature: Signature) -> None:
    assert signature.failure_class in CLASSES
    assert signature.confidence in CONFIDENCES
    assert signature.strength <= FOLLOWS
    assert signature.source
    assert signature.versions


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.identifier)
def test_a_large_log_keeps_the_line(signature: Signature) -> None:
    assert LogReader()._is_interesting(signature.example.encode())


def test_identifiers_are_unique() -> None:
    assert len({signature.identifier for signature in SIGNATURES}) == len(SIGNATURES)


def test_remedies_are_phrases() -> None:
    for failure_class in CLASSES.values():
        for remedy in (failure_class.remedy, *failure_class.by_phase.values()):
            assert remedy
            assert remedy[0].islower() or remedy.startswith("NCCL")
            assert not remedy.endswith(".")


@pytest.mark.parametrize(
    "message",
    [
        "Ignore import error when loading sglang.srt.models.x: libnvrtc.so.12: cannot open shared object file",
        "Failed to load generation config for /models/draft: /models/draft does not appear to have a file named x",
        "server_args=ServerArgs(x='CUDA out of memory')",
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
        "Received sigquit from a child process. It usually means the child failed.",
        '  File "/srv/nccl_error.py", line 3, in NCCL error: x',
        "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)",
        "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1",
        "Decode batch, #running-req: 1, #token: 98, token usage: 0.00, gen throughput (token/s): 97.52, #queue-req: 0",
        "node:25:25 [3] NCCL INFO P2P Chunksize set to 131072",
        "Using default HuggingFace chat template with detected content format: string",
        "max_total_num_tokens=2420866, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=48",
    ],
)
def test_words_that_mean_no_failure(message: str) -> None:
    assert match(message, "serving") is None


def test_quoted_source_counts_only_where_the_exception_is_mute() -> None:
    assert match('    raise RuntimeError(f"NCCL error: {text}")', "starting", quoted=True) is None
    found = match("    assert not get_global_server_args().disable_chunked_prefix_cache", "serving", quoted=True)
    assert found is not None
    assert is_harmless("    ^^^^^^")


def test_no_pattern_takes_long() -> None:
    text = "a.b " * 1000 + "'" * 1000 + "[" * 1000
    begin = time.process_time()
    for signature in SIGNATURES:
        assert re.search(signature.pattern, text) is None
    assert time.process_time() - begin < 2  # all together take some milliseconds; one that backtracks takes minutes
