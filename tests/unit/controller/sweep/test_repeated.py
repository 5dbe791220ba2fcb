"""When an arm counts as one that cannot be launched."""

from __future__ import annotations

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import CLASSES

from controller.plan import Cell
from controller.sweep.failures import CellFailure
from controller.sweep.outcome import CellOutcome
from controller.sweep.repeated import NOT_LAUNCHED, OF_THE_MOMENT, RepeatedFailures
from controller.sweep.state import CellState


def ended(block: int, arm: str, failure: CellFailure | None = None) -> tuple[Cell, CellOutcome]:
    cell = Cell(cell_id=f"b{block:02}-{arm}", block=block, order=0, arm=arm)
    return cell, CellOutcome(CellState.FAILED if failure else CellState.DONE, failure)


def failure(kind: str = "graph-oom", phase: str = "draft_graphs", cause: str = "no memory") -> CellFailure:
    return CellFailure(kind, "x", {"phase": phase, "cause": cause})


def expected(*launches: tuple[Cell, CellOutcome]) -> CellFailure | None:
    failures = RepeatedFailures()
    for cell, outcome in launches:
        failures.learn(cell, outcome)
    return failures.expected("a")


def test_two_alike_while_others_work() -> None:
    found = expected(ended(1, "a", failure()), ended(1, "b"), ended(2, "a", failure(cause="less memory")))
    assert found is not None
    assert found.kind == "graph-oom"
    assert found.details == {NOT_LAUNCHED: True, "phase": "draft_graphs"}
    assert "b01-a and b02-a" in found.sentence


def test_a_machine_on_which_nothing_works_is_not_the_arms_fault() -> None:
    assert expected(ended(1, "b"), ended(1, "a", failure()), ended(2, "a", failure())) is None


def test_failures_of_two_kinds_or_phases_are_tried_again() -> None:
    for other in (failure("graph-ima"), failure(phase="weights")):
        assert expected(ended(1, "a", failure()), ended(1, "b"), ended(2, "a", other)) is None


def test_an_unknown_failure_must_say_the_same() -> None:
    first = ended(1, "a", failure("unknown"))
    assert expected(first, ended(1, "b"), ended(2, "a", failure("unknown", cause="other"))) is None
    assert expected(first, ended(1, "b"), ended(2, "a", failure("unknown"))) is not None


def test_an_arm_that_was_measured_once_can_be_launched() -> None:
    assert expected(ended(1, "a"), ended(2, "a", failure()), ended(2, "b"), ended(3, "a", failure())) is None


def test_an_arm_that_an_earlier_run_measured_can_be_launched() -> None:
    failures = RepeatedFailures({"a"})
    for launch in (ended(3, "a", failure()), ended(3, "b"), ended(4, "a", failure())):
        failures.learn(*launch)
    assert failures.expected("a") is None


@pytest.mark.parametrize("kind", sorted(OF_THE_MOMENT))
def test_what_others_do_to_the_machine_is_not_the_arms_fault(kind: str) -> None:
    assert kind in CLASSES
    taken = failure(kind)
    assert expected(ended(1, "a", taken), ended(1, "b"), ended(2, "a", taken), ended(2, "b")) is None


def test_one_failure_or_one_without_a_phase_says_nothing() -> None:
    assert expected(ended(1, "a", failure()), ended(1, "b")) is None
    lost = CellFailure("no_completed_request", "x")
    assert expected(ended(1, "a", lost), ended(1, "b"), ended(2, "a", lost)) is None
