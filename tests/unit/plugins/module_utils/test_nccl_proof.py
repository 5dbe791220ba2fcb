from __future__ import annotations

import sys
from typing import Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.nccl_proof import (
    PROCESSES,
    failures,
    prove,
    prove_left_out,
    still_set,
    summarize,
)

WANTED = {"NCCL_PROTO": "LL"}


def report(process: str, value: str | None, c_value: str | None = "same", *, no_site: bool = False) -> dict[str, Any]:
    values = {"os.environ": value, "getenv": value if c_value == "same" else c_value}
    return {"process": process, "no_site": no_site, "values": {"NCCL_PROTO": values}}


def test_all_three_processes_report() -> None:
    reports = prove(sys.executable, {"SGLANG_OPS_TEST_UNSET": "1"})
    assert [entry["process"] for entry in reports] == list(PROCESSES)
    assert not summarize(reports, {"SGLANG_OPS_TEST_UNSET": "1"})["SGLANG_OPS_TEST_UNSET"]["arrived"]


def test_the_variables_of_the_caller_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_OPS_TEST_SET", "1")
    reports = prove(sys.executable, {"SGLANG_OPS_TEST_SET": "1"})
    assert {entry["values"]["SGLANG_OPS_TEST_SET"]["getenv"] for entry in reports} == {None}


def test_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_OPS_TEST_SET", "1")
    assert prove_left_out(sys.executable, ["SGLANG_OPS_TEST_SET"]) == []
    reports = [report("parent", None), report("child", "LL"), report("grandchild", "LL")]
    (sentence,) = still_set(reports, ["NCCL_PROTO"])
    assert sentence.startswith("NCCL_PROTO is not left out in the child: something else sets it to 'LL'")


def test_everything_arrived() -> None:
    reports = [report(process, "LL") for process in PROCESSES]
    summary = summarize(reports, WANTED)
    assert summary["NCCL_PROTO"]["arrived"]
    assert failures(summary, reports, "/file") == []


@pytest.mark.parametrize(
    ("reports", "sentence"),
    [
        ([report("parent", None, no_site=True)], "parent: this Python is started with -S"),
        ([report("parent", None)], "parent: this Python does not run /file"),
        ([report("parent", "Simple")], "parent: something else sets it to 'Simple'"),
        ([report("parent", "LL", "Simple")], "parent: something else sets it to 'Simple'"),
        ([report("parent", "LL")], "child: that process did not report"),
        (
            [report("parent", "LL"), report("child", "LL"), report("grandchild", None)],
            "grandchild: it is there in the process",
        ),
    ],
)
def test_the_reason_is_named(reports: list[dict[str, Any]], sentence: str) -> None:
    sentences = failures(summarize(reports, WANTED), reports, "/file")
    assert len(sentences) == 1
    assert sentences[0].startswith(f"NCCL_PROTO did not arrive in the {sentence}")
