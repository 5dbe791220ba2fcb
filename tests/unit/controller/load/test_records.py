from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.load.meta import read_meta
from controller.load.records import InterTokenSummary, RecordError, RequestRecord, nearest_rank

SECONDS = st.floats(0, 1e4)
RECORDS = st.builds(
    RequestRecord,
    prompt_id=st.integers(0, 10_000),
    run=st.integers(0, 99),
    warmup=st.booleans(),
    started_s=SECONDS,
    ttft_s=SECONDS,
    e2e_s=SECONDS,
    decode_s=SECONDS,
    prompt_tokens=st.integers(0, 10**6),
    completion_tokens=st.integers(0, 10**6),
    verify_steps=st.none() | st.integers(1, 10**6),
    accept_histogram=st.none() | st.lists(st.integers(0, 10**6), max_size=8),
    inter_token_s=st.lists(SECONDS, max_size=20).map(InterTokenSummary.of),
    text_sha256=st.text(max_size=64),
    error=st.none() | st.text(),
    concurrency=st.integers(1, 512),
    first_chunk_tokens=st.integers(0, 9),
)


@given(RECORDS)
def test_json_and_back(record: RequestRecord) -> None:
    assert RequestRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@given(RECORDS)
def test_keys_of_newer_versions_are_ignored(record: RequestRecord) -> None:
    assert RequestRecord.from_json({**record.to_json(), "new": 1}) == record


@pytest.mark.parametrize("key", ["prompt_id", "inter_token_s", "decode_s", "text_sha256"])
def test_missing_fields(key: str) -> None:
    data = RequestRecord(0, 0, False, 0.0, 0.1, 1.0, 0.9, 1, 2, None, None, InterTokenSummary.of([]), "").to_json()
    del data[key]
    with pytest.raises(RecordError, match="cannot be read"):
        RequestRecord.from_json(data)


def test_wrong_kind() -> None:
    data = RequestRecord(0, 0, False, 0.0, 0.1, 1.0, 0.9, 1, 2, None, None, InterTokenSummary.of([]), "").to_json()
    with pytest.raises(RecordError, match="decode_s = '1'"):
        RequestRecord.from_json({**data, "decode_s": "1"})
    for name, value in (("completion_tokens", "2"), ("verify_steps", 1.5), ("accept_histogram", 3), ("error", 1)):
        with pytest.raises(RecordError, match=f"has {name} = "):
            RequestRecord.from_json({**data, name: value})
    with pytest.raises(RecordError, match="whole numbers alone"):
        RequestRecord.from_json({**data, "accept_histogram": [1, "2"]})
    with pytest.raises(RecordError, match="cannot be read"):
        RequestRecord.from_json({**data, "inter_token_s": None})


def test_summary() -> None:
    summary = InterTokenSummary.of([0.3, 0.1, 0.2])
    assert (summary.count, summary.p50_s, summary.p99_s, summary.max_s) == (3, 0.2, 0.3, 0.3)
    assert summary.mean_s == pytest.approx(0.2)
    assert InterTokenSummary.of([]).count == 0
    assert nearest_rank([1.0], 0.01) == 1.0


@pytest.mark.parametrize(
    ("meta", "histogram"),
    [
        ({"spec_accept_histogram": [1, 2]}, [1, 2]),  # 0.5.9 to 0.5.11
        ({"spec_accept_histogram": [1, 2], "spec_correct_drafts_histogram": [1, 2]}, [1, 2]),  # 0.5.12 to 0.5.20
        ({"spec_correct_drafts_histogram": [3]}, [3]),  # 0.5.21 and later
        ({}, None),  # 0.5.6 to 0.5.8
    ],
)
def test_every_wording_of_meta(meta: dict[str, object], histogram: list[int] | None) -> None:
    found = read_meta({"completion_tokens": 256, "spec_verify_ct": 100, "prompt_tokens": 3, **meta})
    assert (found.completion_tokens, found.verify_steps, found.accept_histogram) == (256, 100, histogram)


def test_meta_without_speculation() -> None:
    found = read_meta({"completion_tokens": 5, "finish_reason": {"type": "abort", "message": "cut"}})
    assert (found.verify_steps, found.finish_reason, found.finish_message) == (None, "abort", "cut")
    assert read_meta({"spec_verify_ct": 0}).verify_steps is None
    assert read_meta({"finish_reason": "stop"}).finish_reason == "stop"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(
    st.dictionaries(
        st.sampled_from(["completion_tokens", "spec_verify_ct", "spec_accept_histogram", "finish_reason"]), JSON
    )
)
def test_meta_never_raises(meta: dict[str, object]) -> None:
    found = read_meta(meta)
    assert found.completion_tokens >= 0


@pytest.mark.parametrize("data", ["a request", 5, None, [1]])
def test_what_is_no_record_at_all_is_said_in_a_sentence(data: Any) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        RequestRecord.from_json(data)
