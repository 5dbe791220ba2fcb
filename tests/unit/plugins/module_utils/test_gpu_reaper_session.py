"""Cleaning by session, on a machine on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.plugins.module_utils.gpu_world import (
    World,
    failure,
    make_world,
    pids,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return make_world(tmp_path, monkeypatch)


def test_session_of_a_dead_launch_goes_and_foreign_stays(world: World) -> None:
    world.record(790, start=100)
    world.process(801, memory={0: 70000}, session=790, start=200)
    world.process(802, session=790, start=210)  # has not allocated yet
    world.process(803, session=790, start=90)  # older than the launch: the number was used before
    world.process(804, memory={1: 300}, session=804)
    result = world.reaper().run()
    assert pids(result["killed"]) == {801, 802}
    assert world.alive(803)
    assert world.alive(804)
    assert (world.state_dir / "launch.json").exists()


def test_session_of_a_live_launch_is_protected(world: World) -> None:
    world.record(790, start=100)
    world.record(690, start=50, name="launch.json.last")
    world.process(790, start=100, session=790)
    world.process(801, memory={0: 70000}, session=790, parent=790, start=200)
    world.process(701, memory={1: 70000}, session=690, start=60)
    result = world.reaper().run()
    assert pids(result["protected"]) == {790, 801}
    assert pids(result["killed"]) == {701}


@pytest.mark.parametrize("leader_start", [100, 150])
def test_all_ends_the_recorded_session_only(world: World, leader_start: int) -> None:
    world.record(790, start=100)
    world.process(790, start=leader_start, session=790)
    world.process(801, session=790, parent=790, start=200)
    result = world.reaper(mode="all").run()
    # A leader with another start time is another session that got the same number.
    assert pids(result["killed"]) == ({790, 801} if leader_start == 100 else set())
    assert result["launches_removed"]


def test_another_boot_owns_nothing(world: World) -> None:
    world.record(790, start=100, boot_id="earlier")
    world.process(801, memory={0: 300}, session=790, start=200)
    assert not world.reaper().run()["killed"]


def test_zombie_leader_counts_as_dead_and_is_a_note(world: World) -> None:
    world.record(790, start=100)
    world.process(790, start=100, session=790, state="Z")
    world.process(801, memory={0: 70000}, session=790, parent=790, start=200)
    reaper = world.reaper()
    result = reaper.run()
    assert pids(result["killed"]) == {801}
    assert "1 process of ours ended, not yet collected" in result["notes"][0]
    assert not reaper.warnings


def test_unreadable_record_ends_the_cleaning(world: World) -> None:
    world.record(790, start=100).write_text("{")
    assert "cannot be understood" in failure(world.reaper()).sentence


def test_record_that_cannot_be_renamed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.record(790, start=100)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.rename", refuse)
    assert "cannot be renamed" in failure(world.reaper(mode="all")).sentence
