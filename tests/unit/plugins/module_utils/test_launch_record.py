from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_record import (
    LaunchRecord,
    fingerprint,
    parse_record,
    parse_systemctl_show,
    redacted,
    started_at_from_monotonic,
)

RECORD = LaunchRecord(
    launch_id="a",
    manager="process",
    unit=None,
    pid=10,
    session=10,
    start_ticks=5,
    boot_id="b",
    started_at=1.5,
    argv=["/python", "--api-key", "x"],
    environment={"HF_TOKEN": "y", "NCCL_PROTO": "LL"},
    log_file="/log",
    fingerprint="f",
    port=8000,
    owner="",
)


def test_round_trip_and_schema() -> None:
    assert parse_record(RECORD.to_json()) == RECORD
    assert json.loads(RECORD.to_json())["schema"] == 1
    assert "environment" not in RECORD.public()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "not of schema 1"),
        ('{"schema": 2}', "not of schema 1"),
        ('{"schema": 1}', "lacks launch_id"),
    ],
)
def test_what_is_no_record(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_record(text)


def test_secrets_do_not_reach_the_record() -> None:
    safe = redacted(RECORD)
    assert "x" not in safe.argv
    assert safe.environment == {"HF_TOKEN": "REDACTED", "NCCL_PROTO": "LL"}


def test_fingerprint_tells_launches_apart() -> None:
    base = fingerprint(["a"], {"x": "1"}, [("/f", b"1")])
    assert base == fingerprint(["a"], {"x": "1"}, [("/f", b"1")])
    assert len(base) == 64
    others = {
        fingerprint(["b"], {"x": "1"}, [("/f", b"1")]),
        fingerprint(["a"], {"x": "2"}, [("/f", b"1")]),
        fingerprint(["a"], {"x": "1"}, [("/f", b"2")]),
        fingerprint(["a"], {"x": "1"}, [("/f", None)]),
        fingerprint(["a"], {"x": "1"}),
    }
    assert len(others | {base}) == 6
    assert fingerprint([], {"a": "1", "b": "2"}) == fingerprint([], {"b": "2", "a": "1"})


def test_systemctl_show() -> None:
    assert parse_systemctl_show("MainPID=7\nEmpty=\nnot a property\nX=a=b\n") == {
        "MainPID": "7",
        "Empty": "",
        "X": "a=b",
    }
    assert started_at_from_monotonic(5_000_000, 7.0, 1000.0) == pytest.approx(998.0)


def test_the_record_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RECORD.pid = 3  # type: ignore[misc]
