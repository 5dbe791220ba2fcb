"""Logs of public reports: nearly all are named right, and what is wrong is never sure."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import CLASSES
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import diagnose_file

from tests.bench.bench_diagnose_accuracy import REPORTS, Named, diagnose_folder

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import Diagnosis

ROOT = Path(__file__).parents[4]
ENOUGH = 0.95
NAMED = diagnose_folder(REPORTS)


def body(one: Named) -> list[str]:
    return one.path.read_text(encoding="utf-8").splitlines()[1:]


@pytest.mark.parametrize("folder", ["first", "second", "third", "fourth", "fifth"])
def test_nearly_all_are_right(folder: str) -> None:
    named = [one for one in NAMED if one.path.parent.name == folder]
    assert len(named) > 10
    assert sum(one.right for one in named) >= ENOUGH * len(named)


def test_what_is_wrong_is_not_sure() -> None:
    assert [one.path.name for one in NAMED if one.wrong_and_sure] == []


def test_every_log_expects_classes_that_exist() -> None:
    assert {name for one in NAMED for name in one.expected} <= set(CLASSES)
    assert len(NAMED) == len(list(REPORTS.rglob("*.log")))


def diagnose_lines(lines: list[str]) -> Diagnosis:
    return diagnose_file(io.BytesIO("\n".join(lines).encode()))


@pytest.mark.parametrize(
    "prefix",
    [
        "sglang-1  | ",
        "Nov 30 10:00:00 ct129 sglang[123]: ",
        "(SGLangEngine pid=77, ip=10.0.0.1) ",
        "2026-01-01T00:00:00.123456789Z stderr F ",
        "2026-01-01 00:00:00,123 - __main__ - INFO - ",
        '{"log": ',
    ],
)
def test_what_a_collector_puts_before_the_lines_changes_nothing(prefix: str) -> None:
    def collected(line: str) -> str:
        return json.dumps({"log": f"{line}\n"}) if prefix.startswith("{") else prefix + line

    wrong = [
        one.path.name
        for one in NAMED
        if diagnose_lines([collected(line) for line in body(one)]).failure_class not in one.expected
    ]
    assert wrong == []


@pytest.mark.parametrize("lost", [1, 2, 3, 5])
def test_a_cut_log_is_not_surely_something_else(lost: int) -> None:
    for one in NAMED:
        for lines in (body(one)[lost:], body(one)[:-lost]):
            found = diagnose_lines(lines)
            assert found.failure_class in {*one.expected, "healthy"} or found.confidence != "high", one.path.name


def test_wrong_and_sure() -> None:
    one = Named(Path("x.log"), ("xid",), "mig", "high")
    assert (one.right, one.wrong_and_sure) == (False, True)
    assert not Named(Path("x.log"), ("xid",), "mig", "medium").wrong_and_sure


def test_the_table(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("# expect=port-in-use source=x\n[Errno 98] Address already in use\n")
    (tmp_path / "b.log").write_text("# expect=mig\n[Errno 98] Address already in use\n")
    (tmp_path / "c.log").write_text("no heading\n")
    program = ROOT / "tests" / "bench" / "bench_diagnose_accuracy.py"
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, check=False)
    assert "1 of   2 right" in done.stdout
    assert "wrong: b.log: port-in-use (high) instead of mig" in done.stdout
    assert done.returncode == 1
