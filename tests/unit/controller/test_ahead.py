"""A playbook started ahead of time waits at its gate until it is wanted, and does nothing when it never is."""

from __future__ import annotations

import fcntl
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from controller.ahead import GATE_TASK, GATE_VARIABLE, AheadOfTime, Gate
from controller.exits import TargetError
from controller.playbook_events import TaskTime
from controller.playbooks import PlaybookRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class GatedPlaybooks:
    """Plays like the real runner: waits for the shared lock, reads the word, then works."""

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.words: list[str] = []
        self.error: Exception | None = None

    def command(self, playbook: str, extra_vars: Mapping[str, Any], tags: Sequence[str] = ()) -> str:
        return f"{playbook} {dict(extra_vars)} {list(tags)}"

    def run(
        self,
        playbook: str,
        *,
        directory: Path,
        extra_vars: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        on_phase: Callable[[str], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PlaybookRun:
        del directory, tags
        variables = dict(extra_vars or {})
        gate = variables.pop(GATE_VARIABLE, None)
        if gate is not None:
            if self.error:
                raise self.error
            with Path(gate).open() as file:
                while True:
                    if cancelled():
                        return PlaybookRun(f"{playbook}.yml", "cancelled", 254, 0.0)
                    try:
                        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    except BlockingIOError:
                        time.sleep(0.005)
                    else:
                        break
                self.words.append(file.read())
        if on_phase:
            on_phase("serving")
        self.done.append((playbook, variables))
        return PlaybookRun(
            f"{playbook}.yml",
            "ok",
            0,
            99.0,
            (TaskTime(GATE_TASK, "assert", 99.0, "ok"), TaskTime("Work", "x", 1.0, "ok")),
        )


@pytest.fixture
def playbooks() -> GatedPlaybooks:
    return GatedPlaybooks()


def test_prepared_playbook_waits_until_it_is_asked_for(playbooks: GatedPlaybooks, tmp_path: Path) -> None:
    ahead = AheadOfTime(playbooks)
    phases: list[str] = []
    ahead.prepare("restart", directory=tmp_path, extra_vars={"steps": 3})
    time.sleep(0.05)
    assert playbooks.done == []
    ended = ahead.run("restart", directory=tmp_path, extra_vars={"steps": 3}, on_phase=phases.append)
    assert playbooks.done == [("restart", {"steps": 3})]
    assert playbooks.words == ["go"]
    assert phases == ["serving"]
    assert ended.seconds < 5, "the time at the gate is no cost"
    assert [task.task for task in ended.tasks] == ["Work"]
    assert list(tmp_path.iterdir()) == []


def test_other_variables_end_the_prepared_one(playbooks: GatedPlaybooks, tmp_path: Path) -> None:
    ahead = AheadOfTime(playbooks)
    ahead.prepare("restart", directory=tmp_path, extra_vars={"steps": 3})
    ended = ahead.run("restart", directory=tmp_path, extra_vars={"steps": 2})
    assert ended.status == "ok"
    assert playbooks.done == [("restart", {"steps": 2})]
    assert playbooks.words == []


def test_a_look_at_the_server_leaves_the_prepared_one(playbooks: GatedPlaybooks, tmp_path: Path) -> None:
    ahead = AheadOfTime(playbooks)
    ahead.prepare("restart", directory=tmp_path, extra_vars={})
    ahead.run("health", directory=tmp_path)
    ahead.run("restart", directory=tmp_path)
    assert [name for name, _ in playbooks.done] == ["health", "restart"]
    assert playbooks.words == ["go"]


def test_discard_ends_it_without_the_word(playbooks: GatedPlaybooks, tmp_path: Path) -> None:
    ahead = AheadOfTime(playbooks)
    ahead.discard()
    ahead.prepare("restart", directory=tmp_path, extra_vars={})
    ahead.discard()
    assert playbooks.done == []
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_prepared_one_reaches_who_asks(playbooks: GatedPlaybooks, tmp_path: Path) -> None:
    playbooks.error = TargetError("no such directory.")
    ahead = AheadOfTime(playbooks)
    ahead.prepare("restart", directory=tmp_path, extra_vars={})
    with pytest.raises(TargetError, match="no such directory"):
        ahead.run("restart", directory=tmp_path)


def test_the_command_for_copying_knows_no_gate(playbooks: GatedPlaybooks) -> None:
    assert AheadOfTime(playbooks).command("restart", {"a": 1}) == "restart {'a': 1} []"


def test_gate_of_a_dead_controller_opens_without_the_word(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    waiting = subprocess.Popen(
        ["flock", "--shared", str(gate.path), "cat", str(gate.path)], stdout=subprocess.PIPE, text=True
    )
    time.sleep(0.05)
    assert waiting.poll() is None
    gate.close()
    output, _ = waiting.communicate(timeout=10)
    assert output == ""


def test_gate_says_the_word(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    gate.open()
    done = subprocess.run(
        ["flock", "--shared", str(gate.path), "cat", str(gate.path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    assert done.stdout == "go"
    assert (tmp_path / "gate").stat().st_mode & 0o777 == 0o600
