"""What a sweep runs on: changes are seen, refused on resume, and labelled when they are accepted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controller.exits import Exit
from controller.playbooks import PlaybookRun
from controller.sweep.configuration import Configuration, ConfigurationChangedError, refuse
from controller.sweep.results import analyse, read_sweep
from controller.sweep.state import CellState
from tests.unit.controller.sweep.fakes import FakeLoad, FakePlaybooks, Notes, broken, healthy, plan, sweep

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NODE = {"driver": "580.95.05", "package sglang": "0.5.15", "/draft/config.json": "a" * 64}
CHANGED = NODE | {"/draft/config.json": "b" * 64}


def served(variables: Mapping[str, Any], node: Mapping[str, str], **launch: Any) -> PlaybookRun:
    """A ready server on a node with this identity."""
    run = healthy(variables)
    health = dict(run.results["sglang_health"])
    health["launch"] = {**health["launch"], "argv": ["python3", "--tp-size", "8"], **launch}
    return replace(run, results={"sglang_health": health, "launch_conditions": {"identity": dict(node)}})


def looked(node: Mapping[str, str]) -> PlaybookRun:
    return PlaybookRun("identity.yml", "ok", 0, 0.5, (), {"launch_conditions": {"identity": dict(node)}})


def unfinished(directory: Path) -> None:
    """A sweep of which one cell failed."""
    playbooks = FakePlaybooks(lambda number, v: broken() if number == 4 else served(v, NODE))
    assert sweep(directory, playbooks, FakeLoad(), plan=plan(3)).run().exit_code is Exit.RUN_FAILED


def test_a_resumed_sweep_on_the_same_node_goes_on(tmp_path: Path) -> None:
    unfinished(tmp_path / "s")
    decided, state = read_sweep(tmp_path / "s")
    playbooks = FakePlaybooks(lambda _, v: served(v, NODE), identity_answer=looked(NODE))
    assert sweep(tmp_path / "s", playbooks, FakeLoad(), state, plan=decided).run().exit_code is Exit.OK
    names = [name for name, _ in playbooks.calls]
    assert names.index("identity") < names.index("restart")
    assert names.count("identity") == 1


def test_a_resumed_sweep_on_another_node_is_refused_with_the_difference(tmp_path: Path) -> None:
    unfinished(tmp_path / "s")
    decided, state = read_sweep(tmp_path / "s")
    playbooks = FakePlaybooks(identity_answer=looked(CHANGED))
    with pytest.raises(ConfigurationChangedError, match=r"/draft/config\.json was aaaaaaaaaaaa…a+, is bbbb") as caught:
        sweep(tmp_path / "s", playbooks, FakeLoad(), state, plan=decided).run()
    assert caught.value.exit_code is Exit.USAGE
    assert "--accept-changes" in caught.value.sentence
    assert playbooks.restarts == []
    assert playbooks.stops
    _, state = read_sweep(tmp_path / "s")
    assert [history.state for history in state.cells.values()].count(CellState.ABANDONED) == 1


def test_accepted_changes_are_recorded_and_labelled(tmp_path: Path) -> None:
    unfinished(tmp_path / "s")
    decided, state = read_sweep(tmp_path / "s")
    notes = Notes()
    playbooks = FakePlaybooks(lambda _, v: served(v, CHANGED), identity_answer=looked(CHANGED))
    one = sweep(tmp_path / "s", playbooks, FakeLoad(), state, plan=decided, watcher=notes, accept_changes=True)
    assert one.run().exit_code is Exit.OK
    assert any("going on although the configuration changed" in note for note in notes.notes)
    decided, state = read_sweep(tmp_path / "s")
    repeated = decided.cells[4].cell_id
    assert [cell_id for cell_id, history in state.cells.items() if history.generation] == [repeated]
    (flag,) = [flag for flag in analyse(decided, state).flags if flag.code == "accepted_changes"]
    assert flag.values["cells"] == repeated
    assert "/draft/config.json" in flag.values["differences"]
    again = FakePlaybooks(identity_answer=looked(CHANGED))
    assert sweep(tmp_path / "s", again, FakeLoad(), state, plan=decided).run().exit_code is Exit.OK


@pytest.mark.parametrize("accept", [False, True])
def test_another_command_line_is_found_at_the_launch(tmp_path: Path, accept: bool) -> None:
    unfinished(tmp_path / "s")
    decided, state = read_sweep(tmp_path / "s")
    playbooks = FakePlaybooks(
        lambda _, v: served(v, NODE, argv=["python3", "--tp-size", "4"], fingerprint="other"),
        identity_answer=looked(NODE),
    )
    one = sweep(tmp_path / "s", playbooks, FakeLoad(), state, plan=decided, accept_changes=accept)
    if accept:
        assert one.run().exit_code is Exit.OK
        return
    with pytest.raises(ConfigurationChangedError, match="without 8, with 4"):
        one.run()


def test_a_change_while_the_sweep_runs_fails_the_cell(tmp_path: Path) -> None:
    playbooks = FakePlaybooks(lambda number, v: served(v, NODE if number < 3 else NODE | {"driver": "590"}))
    assert sweep(tmp_path / "s", playbooks, FakeLoad()).run().exit_code is Exit.RUN_FAILED
    _, state = read_sweep(tmp_path / "s")
    failures = [history.failure for history in state.cells.values() if history.failure]
    assert {failure["class"] for failure in failures} == {"configuration_changed"}
    assert "driver was 580.95.05, is 590" in failures[0]["sentence"]


def test_differences_of_launches() -> None:
    known = Configuration()
    known.learn("a", {"fingerprint": "1", "argv": ["x", "y"]}, {})
    assert known.launch_differences("a", {"fingerprint": "1", "argv": ["x", "y"]}) == []
    assert known.launch_differences("b", {"fingerprint": "2"}) == []
    assert "words in another order" in known.launch_differences("a", {"argv": ["y", "x"]})[0]
    assert "environment" in known.launch_differences("a", {"fingerprint": "2", "argv": ["x", "y"]})[0]
    assert known.launch_differences("a", {"fingerprint": "", "argv": []}) == []


def test_a_sentence_names_a_few_differences_and_counts_the_rest() -> None:
    text = refuse([f"thing {number}" for number in range(7)], "again").sentence
    assert "thing 3; and 3 more" in text
    assert "again --accept-changes" in text
