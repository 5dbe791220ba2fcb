from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from controller import cli
from controller.arms import Arm, baseline
from controller.exits import Exit
from tests.unit.controller.report.sample import BASELINE, FASTER, SLOWER, story, write_sweep

if TYPE_CHECKING:
    from pathlib import Path


def test_report_writes_files_and_keeps_standard_output_for_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": SLOWER})
    assert cli.main(["report", str(directory), "--format", "none"]) == Exit.OK
    before = capsys.readouterr().out
    assert not (directory / "report.html").exists()
    assert cli.main(["report", str(directory)]) == Exit.OK
    captured = capsys.readouterr()
    assert captured.out == before
    assert "wrote report.html" in captured.err
    assert (directory / "report.html").exists()


def test_report_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = story(tmp_path / "sweep")
    output = tmp_path / "out"
    assert cli.main(["report", str(directory), "--no-html", "--output", str(output)]) == Exit.OK
    assert not (output / "report.html").exists()
    assert (output / "cells.csv").exists()
    assert cli.main(["report", str(directory), "--format", "html", "--output", str(tmp_path / "html"), "--json"]) == 0
    assert [path.name for path in (tmp_path / "html").iterdir()] == ["report.html"]
    capsys.readouterr()
    assert cli.main(["report", str(directory), "--format", "docx"]) == Exit.USAGE
    assert cli.main(["report", str(directory), "--fail-arm", "steps-2"]) == Exit.USAGE
    assert cli.main(["report", str(directory), "--fail-if", "bored"]) == Exit.USAGE


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--fail-if", "hurts"], Exit.RUN_FAILED),
        (["--fail-if", "hurts", "--fail-arm", "steps-3"], Exit.OK),
        (["--fail-if", "undecided"], Exit.OK),
        (["--fail-if", "undecided,PAYS"], Exit.RUN_FAILED),
    ],
)
def test_gate(tmp_path: Path, options: list[str], code: Exit, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": SLOWER, "steps-3": FASTER})
    assert cli.main(["report", str(directory), "--format", "none", "--json", *options]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == code
    assert bool(document["messages"]) == (code is Exit.RUN_FAILED)


def test_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_sweep(tmp_path / "a", {"baseline": BASELINE, "steps-2": FASTER}, argv=["--tp-size", "8"])
    second = write_sweep(
        tmp_path / "b", {"baseline": BASELINE, "steps-2": SLOWER}, argv=["--tp-size", "4", "--api-key", "hunter22"]
    )
    assert cli.main(["compare", str(first), str(second)]) == Exit.OK
    text = " ".join(capsys.readouterr().out.split())
    assert "steps-2, concurrency 1 HURTS: B is slower" in text
    assert "baseline, concurrency 1 is EQUAL" in text
    assert "the larger part is the cycle time." in text
    assert "--tp-size: 8 in A, 4 in B" in text
    assert "simulated" in text
    assert "hunter22" not in text
    assert cli.main(["compare", str(first), str(second), "--json"]) == Exit.OK
    document = json.loads(capsys.readouterr().out)
    assert [arm["verdict"] for arm in document["arms"]] == ["EQUAL", "HURTS"]
    assert document["workload_differences"] == []


def test_compare_refuses_other_workloads_with_the_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_sweep(tmp_path / "a", {"baseline": BASELINE}, seed=1)
    second = write_sweep(tmp_path / "b", {"baseline": BASELINE}, seed=2, levels=(1, 8), simulated=False)
    assert cli.main(["compare", str(first), str(second)]) == Exit.USAGE
    told = capsys.readouterr().err
    assert "seed: 1 in A, 2 in B" in told
    assert "concurrency_levels: [1] in A, [1, 8] in B" in told
    assert "simulated in A, real in B" in told
    assert cli.main(["compare", str(first), str(second), "--anyway"]) == Exit.OK
    assert "Warning: the workloads differ" in capsys.readouterr().out


def test_compare_needs_something_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_sweep(tmp_path / "a", {"baseline": BASELINE})
    other = Arm("other", dict(baseline().settings))
    second = write_sweep(tmp_path / "b", {"other": BASELINE}, arms=[other])
    assert cli.main(["compare", str(first), str(second)]) == Exit.USAGE
    (second / "journal.jsonl").unlink()
    assert cli.main(["compare", str(first), str(second)]) == Exit.USAGE
    assert "nothing has been measured" in capsys.readouterr().err
