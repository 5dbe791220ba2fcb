"""Cleaning by container, on a machine on paper: who goes, who stays, in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_container import UnitState

from tests.unit.plugins.module_utils.gpu_world import (
    INIT,
    KILL,
    TERM,
    UNIT,
    UNIT_CGROUP,
    FakeContainer,
    World,
    failure,
    make_world,
    none_of,
    pids,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return make_world(tmp_path, monkeypatch)


@pytest.fixture
def guest(world: World) -> FakeContainer:
    world.container()
    return FakeContainer(world)


def test_nothing_to_do_changes_nothing(world: World, guest: FakeContainer) -> None:
    world.guest(1700, "sshd")
    result = world.reaper(guest).run()
    assert not result["changed"]
    assert not world.signals
    assert world.time_s == 0
    assert (
        result["diff"]["before"]
        == result["diff"]["after"]
        == "GPU 0: 0 of 97887 MiB in use\nGPU 1: 0 of 97887 MiB in use\n"
    )


def test_orphans_go_and_everything_else_stays(world: World, guest: FakeContainer) -> None:
    world.guest(1801, "sglang::schedul", argv=["sglang::scheduler_TP0"], memory={0: 77824}, group=1790, session=1790)
    world.guest(1802, "sglang::schedul", argv=["sglang::scheduler_TP1"], memory={1: 77824}, group=1790, session=1790)
    world.guest(1803, "sglang::detoken", group=1790, session=1790)  # no GPU memory, same job
    world.guest(1804, "worker", parent=1802, group=1804)  # descendant in a group of its own
    world.guest(1700, "sshd")
    world.container(1290, pid=600, namespace="pid:[9]")
    world.process(601, cgroup="/lxc/1290/ns/.lxc", namespace="pid:[9]", inner=5, memory={0: 300})
    world.process(602, "nvidia-persiste", devices=["/dev/nvidia0", "/dev/nvidiactl"])
    result = world.reaper(guest).run()
    assert pids(result["killed"]) == {1801, 1802, 1803, 1804}
    assert {"pid": 1801, "name": "sglang::scheduler_TP0", "signal": "TERM"} in result["killed"]
    assert all(world.alive(pid) for pid in (INIT, 1700, 600, 601, 602))
    assert result["foreign"][0]["owner"] == "container 1290"
    assert pids(result["system"]) == {602}
    assert [row["used_mib"] for row in result["before"]] == [78124, 77824]
    assert [row["used_mib"] for row in result["after"]] == [300, 0]
    assert "sglang::scheduler_TP0 pid 1801 [container 129, ours] 77824 MiB" in result["diff"]["before"]
    assert "1801" not in result["diff"]["after"]


@pytest.mark.parametrize(
    ("cgroup", "namespace"),
    [
        ("/lxc/1290/ns/.lxc", None),  # the number is only a prefix
        ("/lxc/140/ns/lxc/129/ns", None),  # a guest of another container
        ("/user.slice/lxc/129", None),
        ("/lxc/129/ns/.lxc", "pid:[7]"),  # the cgroup alone says 129
        ("/lxc/129/ns/.lxc", ""),  # the namespace cannot be read
    ],
)
def test_both_the_cgroup_and_the_namespace_must_say_129(
    world: World, guest: FakeContainer, cgroup: str, namespace: str | None
) -> None:
    world.guest(1801, memory={0: 20000}, cgroup=cgroup)
    if namespace is not None:
        link = world.root / "1801/ns/pid"
        link.unlink()
        if namespace:
            link.symlink_to(namespace)
    reaper = world.reaper(guest, mode="all")
    error = failure(reaper)
    assert error.diagnosis == "foreign-gpu-user"
    assert not world.signals
    assert world.alive(1801)


def test_launcher_is_asked_first_and_takes_its_children_down(world: World, guest: FakeContainer) -> None:
    world.guest(1790, argv=["python3", "-m", "sglang.launch_server", "--api-key", "s3cret"], start=100)
    world.guest(1801, memory={0: 77824}, parent=1790, group=1790, session=1790, start=200)
    world.takes_along[1790] = [1801]
    result = world.reaper(guest).run()
    assert world.signals == [(1790, TERM)]
    assert result["killed"] == [
        {"pid": 1790, "name": "python3 -m sglang.launch_server", "signal": "TERM"},
        {"pid": 1801, "name": "python3", "signal": "parent"},
    ]


def test_children_of_a_deaf_launcher_get_their_own_term_then_everything_left_is_killed(
    world: World, guest: FakeContainer
) -> None:
    world.guest(1790, start=100)
    world.guest(1801, memory={0: 77824}, parent=1790, group=1790, start=200)
    world.guest(1802, memory={1: 77824}, parent=1790, group=1790, start=200)
    world.ignores = {1790: {TERM}, 1802: {TERM}}
    result = world.reaper(guest).run()
    assert world.signals == [(1790, TERM), (1801, TERM), (1802, TERM), (1790, KILL), (1802, KILL)]
    assert {row["pid"]: row["signal"] for row in result["killed"]} == {1790: "KILL", 1801: "TERM", 1802: "KILL"}
    assert 4 <= world.time_s < 4.5


def test_two_generations(world: World, guest: FakeContainer) -> None:
    world.guest(1801, memory={0: 70000})
    world.on_death[1801] = lambda: none_of(world.guest(1901, memory={0: 70000}, start=900))
    result = world.reaper(guest).run()
    assert pids(result["killed"]) == {1801, 1901}


def test_endless_respawn_is_an_error(world: World, guest: FakeContainer) -> None:
    def respawn(pid: int) -> None:
        world.guest(pid, memory={0: 70000}, start=pid)
        world.on_death[pid] = lambda: respawn(pid + 1)

    respawn(1801)
    reaper = world.reaper(guest)
    error = failure(reaper)
    assert "New processes keep taking the GPUs" in error.sentence
    assert len(reaper.result["killed"]) == 3


def test_newcomer_while_the_memory_settles_is_an_error(world: World, guest: FakeContainer) -> None:
    world.hidden_mib[0] = 9000
    world.at[1.0] = lambda: none_of(world.guest(1801, memory={0: 70000}))
    assert "1801" in failure(world.reaper(guest)).sentence


def test_init_is_never_signalled(world: World, guest: FakeContainer) -> None:
    world.memory[INIT] = {0: 9000}
    reaper = world.reaper(guest, mode="all")
    assert failure(reaper).diagnosis == "foreign-gpu-user"
    assert not world.signals


def test_a_holder_in_the_group_of_init_goes_alone(world: World, guest: FakeContainer) -> None:
    world.guest(1801, memory={0: 9000}, group=INIT)
    world.guest(1802, "bystander", group=INIT)
    world.reaper(guest).run()
    assert world.signals == [(1801, TERM)]


def test_live_unit_is_protected_from_orphan_cleaning(world: World, guest: FakeContainer) -> None:
    world.guest(1790, cgroup=UNIT_CGROUP)
    world.guest(1801, memory={0: 77824}, parent=1790, group=1790, cgroup=UNIT_CGROUP)
    world.guest(1805, "outside", parent=1801, group=1790)
    world.guest(1901, memory={1: 70000})
    guest.unit = UnitState("loaded", "active")
    result = world.reaper(guest).run()
    assert pids(result["killed"]) == {1901}
    assert pids(result["protected"]) == {1790, 1801, 1805}
    assert not guest.stopped
    assert result["unit"] == {"name": UNIT, "load_state": "loaded", "active_state": "active", "stopped": False}


def test_a_unit_that_does_not_answer_ends_orphan_cleaning(world: World, guest: FakeContainer) -> None:
    world.guest(1801, memory={0: 77824}, cgroup=UNIT_CGROUP)
    guest.unit = None
    assert failure(world.reaper(guest)).diagnosis == "container-unreachable"
    assert not world.signals


def test_remains_of_a_failed_unit_are_stopped_through_systemd(world: World, guest: FakeContainer) -> None:
    world.guest(1801, memory={0: 77824}, cgroup=UNIT_CGROUP)
    guest.unit = UnitState("loaded", "failed")
    guest.stops = [1801]
    result = world.reaper(guest).run()
    assert guest.stopped == [UNIT]
    assert result["killed"] == [{"pid": 1801, "name": "python3", "signal": "unit"}]
    assert result["changed"]
    assert not world.signals


def test_all_stops_the_unit_first(world: World, guest: FakeContainer) -> None:
    world.guest(1790, cgroup=UNIT_CGROUP)
    world.guest(1801, memory={0: 77824}, parent=1790, group=1790, cgroup=UNIT_CGROUP)
    world.guest(1901, memory={1: 70000})
    guest.unit = UnitState("loaded", "active")
    guest.stops = [1790, 1801]
    result = world.reaper(guest, mode="all").run()
    assert {row["pid"]: row["signal"] for row in result["killed"]} == {1790: "unit", 1801: "unit", 1901: "TERM"}
    assert result["unit"]["stopped"]


def test_all_stops_a_unit_that_waits_for_its_restart(world: World, guest: FakeContainer) -> None:
    guest.unit = UnitState("loaded", "activating")
    result = world.reaper(guest, mode="all").run()
    assert guest.stopped == [UNIT]
    assert result["changed"]


def test_a_unit_that_does_not_stop_is_signalled(world: World, guest: FakeContainer) -> None:
    world.guest(1790, cgroup=UNIT_CGROUP)  # loading weights: holds no GPU yet
    guest.unit, guest.problem = UnitState("loaded", "active"), "pct gave no answer within 6 s"
    reaper = world.reaper(guest, mode="all")
    result = reaper.run()
    assert world.signals == [(1790, TERM)]
    assert not result["unit"]["stopped"]
    assert "one by one" in reaper.warnings[0]


def test_all_goes_on_when_the_container_does_not_answer(world: World, guest: FakeContainer) -> None:
    world.guest(1801, memory={0: 77824}, cgroup=UNIT_CGROUP)
    guest.unit = None
    reaper = world.reaper(guest, mode="all")
    assert pids(reaper.run()["killed"]) == {1801}
    assert reaper.warnings


def test_all_leaves_no_failed_unit(world: World, guest: FakeContainer) -> None:
    guest.unit = UnitState("loaded", "failed")
    assert world.reaper(guest, mode="all", check_mode=True).run()["changed"]
    assert not guest.forgotten
    result = world.reaper(guest, mode="all").run()
    assert guest.forgotten == [UNIT]
    assert result["changed"]
    guest.unit = UnitState("loaded", "inactive")
    assert not world.reaper(guest, mode="all").run()["changed"]


def test_orphans_leaves_the_failure_of_a_unit_to_be_read(world: World, guest: FakeContainer) -> None:
    guest.unit = UnitState("loaded", "failed")
    assert not world.reaper(guest).run()["changed"]
    assert not guest.forgotten


def test_a_failure_that_cannot_be_forgotten_is_a_warning(world: World, guest: FakeContainer) -> None:
    guest.unit, guest.problem = UnitState("loaded", "failed"), "systemctl reset-failed sglang.service failed"
    reaper = world.reaper(guest, mode="all")
    assert not reaper.run()["changed"]
    assert reaper.warnings == [f"{guest.problem}."]


@pytest.mark.parametrize("unit", ["", UNIT])
def test_a_missing_unit_is_no_matter(world: World, guest: FakeContainer, unit: str) -> None:
    result = world.reaper(guest, mode="all", unit=unit).run()
    assert not result["changed"]
    assert not guest.stopped


def test_stopped_container_has_nothing_of_ours(world: World) -> None:
    guest = FakeContainer(world, running=False)
    result = world.reaper(guest, mode="all").run()
    assert not result["changed"]
    world.hidden_mib[1] = 70000
    assert failure(world.reaper(guest, mode="all")).diagnosis == "gpu-memory-held-no-process"


def test_running_container_without_init_is_an_error(world: World) -> None:
    error = failure(world.reaper(FakeContainer(world)))
    assert "no init was found in the cgroup /lxc/129" in error.sentence
    world.container()
    (world.root / f"{INIT}/ns/pid").unlink()
    assert "its PID namespace cannot be read" in failure(world.reaper(FakeContainer(world))).sentence


def test_launch_record_in_the_container_protects_the_live_launch(world: World, guest: FakeContainer) -> None:
    world.guest(1790, start=100)
    world.guest(1801, memory={0: 77824}, parent=1790, group=1790, session=1790, start=200)
    world.guest(1901, memory={1: 70000})
    record = world.record_in_container(1790, start=100)
    result = world.reaper(guest).run()
    assert pids(result["protected"]) == {1790, 1801}
    assert pids(result["killed"]) == {1901}
    result = world.reaper(guest, mode="all").run()
    assert pids(result["killed"]) == {1790, 1801}
    assert result["launches_removed"] == [{"launch_id": "launch-790", "pid": 790}]
    assert not record.exists()
    assert record.with_name("launch.json.last").exists()
    assert not world.reaper(guest, mode="all").run()["changed"]


def test_dead_launch_in_the_container_loses_schedulers_that_hold_nothing_yet(
    world: World, guest: FakeContainer
) -> None:
    world.guest(1801, session=1790, group=1790, start=200)
    world.record_in_container(1790, start=100)
    assert pids(world.reaper(guest).run()["killed"]) == {1801}


def test_record_that_is_a_link_is_refused(world: World, guest: FakeContainer) -> None:
    record = world.record_in_container(1790, start=100)
    record.rename(record.with_name("elsewhere"))
    record.symlink_to("elsewhere")
    assert "cannot be understood" in failure(world.reaper(guest)).sentence
