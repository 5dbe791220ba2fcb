"""Logs of public reports: nearly all are named right, and what is wrong is never sure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import CLASSES

from tests.bench.bench_diagnose_accuracy import REPORTS, Named, diagnose_folder

ROOT = Path(__file__).parents[4]
ENOUGH = 0.95
NAMED = diagnose_folder(REPORTS)


@pytest.mark.parametrize("folder", ["first", "second", "third"])
def test_nearly_all_are_right(folder: str) -> None:
    named = [one for one in NAMED if one.path.parent.name == folder]
    assert len(named) > 30
    assert sum(one.right for one in named) >= ENOUGH * len(named)


def test_what_is_wrong_is_not_sure() -> None:
    assert [one.path.name for one in NAMED if one.wrong_and_sure] == []


def test_every_log_expects_classes_that_exist() -> None:
    assert {name for one in NAMED for name in one.expected} <= set(CLASSES)
    assert len(NAMED) == len(list(REPORTS.rglob("*.log")))


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
