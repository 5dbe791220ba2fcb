from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from controller.apply.history import FIRST, Deployment, History, date, destination, fold, whoever
from controller.exits import InputError, JournalError
from controller.inventory import Target
from controller.process import start_ticks

GONE = {"pid": os.getpid(), "start_ticks": -1}


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return History(Target(Path("/i"), "box", {}))


def deployment(number: int, outcome: str | None = "applied", *, action: str = "apply", **changes: Any) -> Deployment:
    values: dict[str, Any] = {
        "number": number, "action": action, "at": 0.0, "who": "me@here", "target": "box", "inventory": "/i",
        "before": f"v{number - 1}" if number > 1 else None, "after": f"v{number}", "settings": {"v": number},
        "file": "/f", "sweep_id": "S", "arm": "steps-3", "outcome": outcome, **GONE,
    }  # fmt: skip
    return Deployment(**values | changes)


def applying(number: int) -> dict[str, Any]:
    one = deployment(number, None)
    names = ("number", "action", "who", "target", "inventory", "before", "after", "settings", "file", "arm", "sweep_id")
    return {name: getattr(one, name) for name in names} | GONE


def test_what_is_appended_is_folded(history: History) -> None:
    assert history.deployments() == []
    assert history.cut_off() is None
    with history.open() as journal:
        journal.append("applying", **applying(1), unknown="ignored")
        journal.append("step", number=1, step="launching")
        journal.append("canary", number=1, levels=[{"concurrency": 1}])
        journal.append("of another day", number=1)
        journal.append("applied", number=1)
        journal.append("applying", **applying(2))
        journal.append("step", number=7, step="launching")
    first, second = history.deployments()
    assert (first.state, first.step, first.canary) == ("applied", "launching", [{"concurrency": 1}])
    assert first.ended is not None
    assert second.state == "unfinished"
    assert history.cut_off() == second
    assert history.path.stat().st_mode & 0o777 == 0o600
    assert history.directory.stat().st_mode & 0o777 == 0o700
    assert first.as_json()["state"] == "applied"
    assert "pid" not in first.as_json()
    secret = deployment(1, after="HF_TOKEN: hunter22\n", settings={"e": {"HF_TOKEN": "hunter22"}})
    assert "hunter22" not in str(secret.as_json())
    assert history.folder(2) == history.directory / "2"


def test_a_torn_record_is_as_if_it_had_never_begun(history: History) -> None:
    with history.open() as journal:
        journal.append("applying", **applying(1))
        journal.append("applied", number=1)
    with history.path.open("a") as file:
        file.write('{"kind": "applying", "num')
    assert [one.state for one in history.deployments()] == ["applied"]


def test_a_record_that_is_no_deployment_and_a_place_that_cannot_be_written(history: History, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be read"):
        fold([{"kind": "applying", "number": 1, "at": 0.0}])
    (tmp_path / "sglang-eagle3-ops").write_text("")
    with pytest.raises(JournalError, match="nothing was touched"):
        history.open()


def test_a_living_process_is_not_cut_off() -> None:
    alive = deployment(1, None, pid=os.getpid(), start_ticks=start_ticks(os.getpid()))
    assert (alive.cut_off, alive.state) == (False, "running")
    rebooted = deployment(1, None, pid=os.getpid(), start_ticks=start_ticks(os.getpid()), boot_id="another")
    assert rebooted.cut_off
    dead = deployment(1, None, step="launching")
    assert dead.cut_off
    assert "deployment 1 (steps-3 of sweep S) on box was cut off while the server was launched" in dead.cut_off_sentence


def test_back_to_a_number_or_to_what_was_there_before_the_first() -> None:
    known = [deployment(1), deployment(2, "rolled_back"), deployment(3)]
    assert destination(known, "1").content == "v1"
    assert destination(known, "3").settings == {"v": 3}
    assert destination(known, "0").content is None
    assert destination(known, "0").name == FIRST
    for word in ("4", "-1", "first", ""):
        with pytest.raises(InputError, match="from 0 to 3"):
            destination(known, word)
    with pytest.raises(InputError, match="nothing was deployed"):
        destination([], "last")


@pytest.mark.parametrize(
    ("known", "content"),
    [
        ([deployment(1)], None),
        ([deployment(1), deployment(2)], "v1"),
        ([deployment(1), deployment(2, settings={"v": 1})], None),  # the same settings, applied twice
        ([deployment(1), deployment(2), deployment(3, "rolled_back")], "v1"),
        ([deployment(1), deployment(2, None)], "v1"),
        ([deployment(1), deployment(2, "failed")], "v1"),
        ([deployment(1, None)], None),
        # The rollback itself was cut off, or failed: what it wanted to bring back is what is good.
        ([deployment(1), deployment(2, None), deployment(3, None, action="rollback", after="v1")], "v1"),
        ([deployment(1), deployment(2), deployment(3, "failed", action="rollback", after="v1")], "v1"),
        # Back, and back again: what served before the rollback.
        ([deployment(1), deployment(2), deployment(3, action="rollback", after="v1", settings={"v": 1})], "v2"),
        ([deployment(1), deployment(2, action="rollback", after=None, settings={})], "v1"),
    ],
)
def test_last_is_what_served_well_before(known: list[Deployment], content: str | None) -> None:
    found = destination(known, "last")
    assert found.content == content
    assert found.name


def test_there_is_not_always_something_to_go_back_to() -> None:
    with pytest.raises(InputError, match="nothing to go back to"):
        destination([deployment(1, "rolled_back")], "last")
    with pytest.raises(InputError, match="nothing to go back to"):
        destination([deployment(1, action="rollback", after=None, settings={})], "last")
    strange = destination([deployment(1), deployment(2, None, before="edited")], "last")
    assert (strange.content, strange.name) == ("edited", "what apply found and did not write")


def test_a_rollback_is_called_by_where_it_leads() -> None:
    one = deployment(4, action="rollback", destination="2")
    assert one.title == "deployment 4 (back to 2)"


def test_who_and_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ada")
    assert whoever().startswith("ada@")
    monkeypatch.delenv("SUDO_USER")

    def nobody() -> str:
        raise KeyError

    monkeypatch.setattr("getpass.getuser", nobody)
    assert whoever().startswith(f"uid {os.getuid()}@")
    assert date(0) == "1970-01-01 00:00:00 UTC"
