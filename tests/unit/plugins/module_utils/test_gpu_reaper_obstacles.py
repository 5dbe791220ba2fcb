"""What can stand in the way of free GPUs, on a machine on paper; and the check run that changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_container import UnitState
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import ComputeApp

from tests.unit.plugins.module_utils.gpu_world import (
    INIT,
    KILL,
    TERM,
    UNIT_CGROUP,
    FakeContainer,
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


@pytest.fixture
def guest(world: World) -> FakeContainer:
    world.container()
    return FakeContainer(world)


def test_foreign_memory_fails_with_names_after_ours_is_cleaned(world: World, guest: FakeContainer) -> None:
    world.guest(1801, memory={0: 50000})
    world.process(
        601, argv=["python3", "train.py"], cgroup="/lxc/1290/ns/.lxc", namespace="pid:[9]", inner=5, memory={0: 20000}
    )
    world.process(701, "kvm", cgroup="/qemu.slice/104.scope", memory={1: None})
    world.hidden_mib[1] = 900
    reaper = world.reaper(guest)
    error = failure(reaper)
    assert pids(reaper.result["killed"]) == {1801}
    assert "python3 train.py (pid 601, container 1290) holds GPU 0: 20000 MiB" in error.sentence
    assert "kvm (pid 701, VM 104) holds GPU 1: an amount that nvidia-smi does not give" in error.sentence
    assert error.runbook == "docs/runbooks/foreign-gpu-user.md"
    reaper = world.reaper(guest, fail_on_foreign=False)
    assert not reaper.run()["changed"]
    assert len(reaper.warnings) == 2
    assert world.alive(601)


def test_foreign_memory_on_other_gpus_is_nobodys_concern(world: World, guest: FakeContainer) -> None:
    world.process(601, memory={0: 20000}, devices=["/dev/nvidia0", "/dev/nvidia1"])
    world.process(602, devices=["/dev/nvidiactl"])
    result = world.reaper(guest, ["GPU-1"]).run()
    assert not result["foreign"]
    (world.root / f"{INIT}/root/dev/nvidia1").touch()  # the container has only this one
    result = world.reaper(guest).run()
    assert [row["index"] for row in result["after"]] == [1]
    assert pids(result["foreign"]) == {602}
    assert "No GPU of this machine has the uuid GPU-7" in failure(world.reaper(guest, ["GPU-7"])).sentence


def test_open_device_alone_makes_a_holder(world: World, guest: FakeContainer) -> None:
    world.guest(1801, devices=["/dev/nvidia0", "/dev/nvidia-uvm"])
    result = world.reaper(guest).run()
    assert pids(result["killed"]) == {1801}


def test_thread_in_state_d_is_reported_and_left(world: World, guest: FakeContainer) -> None:
    world.guest(1801, "sglang::schedul", memory={0: 77824}, threads=[("S", "0"), ("D", "os_acquire_rwlock_write")])
    world.ignores[1801] = {TERM, KILL}
    reaper = world.reaper(guest)
    error = failure(reaper)
    assert "waits in os_acquire_rwlock_write" in error.sentence
    assert error.runbook == "docs/runbooks/gpu-process-in-d-state.md"
    assert world.signals == [(1801, TERM), (1801, KILL)]
    assert reaper.result["survivors"] == [
        {"pid": 1801, "name": "sglang::schedul", "state": "D", "wait_channels": ["os_acquire_rwlock_write"]}
    ]
    assert world.time_s < 7  # no waiting for memory that cannot come back


def test_pending_kill_is_not_repeated(world: World, guest: FakeContainer) -> None:
    world.guest(1801, memory={0: 77824}, threads=[("D", "rwsem_down_write")], kill_pending=True)
    world.guest(1802, memory={0: 7000})
    error = failure(world.reaper(guest))
    assert error.diagnosis == "gpu-process-in-d-state"
    assert world.signals == [(1802, TERM)]
    assert world.time_s < 3
    world.at[world.time_s + 1] = lambda: world.die(1801)  # the wait in the kernel ends
    result = world.reaper(guest).run()
    assert result["killed"] == [{"pid": 1801, "name": "python3", "signal": "KILL"}]


def test_zombie_leader_with_a_live_thread_is_ended_and_reported(world: World, guest: FakeContainer) -> None:
    world.guest(1801, state="Z", threads=[("Z", "0"), ("D", "")])
    (world.root / "1801/task/1802/fd/7").symlink_to("/dev/nvidia1")
    world.ignores[1801] = {TERM, KILL}
    error = failure(world.reaper(guest))
    assert "waits in unknown" in error.sentence


def test_survivor_in_another_state(world: World, guest: FakeContainer) -> None:
    world.guest(1801, memory={0: 77824}, state="R")
    world.ignores[1801] = {TERM, KILL}
    error = failure(world.reaper(guest))
    assert "in state R" in error.sentence
    assert error.diagnosis == "gpu-process-survives-kill"


def test_not_permitted(world: World, guest: FakeContainer, monkeypatch: pytest.MonkeyPatch) -> None:
    world.guest(1801, memory={0: 77824})

    def refuse(*_: Any) -> bool:
        raise PermissionError

    monkeypatch.setattr(
        "ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_termination.send_signal", refuse
    )
    assert "Not permitted to signal python3 (pid 1801, container 129)" in failure(world.reaper(guest)).sentence


def test_memory_in_teardown_is_waited_for(world: World, guest: FakeContainer) -> None:
    world.guest(1801, memory={0: 77824})

    def held_by_the_driver() -> None:
        world.hidden_mib[0] = 70000
        world.at[world.time_s + 2] = world.hidden_mib.clear

    world.on_death[1801] = held_by_the_driver
    result = world.reaper(guest).run()
    assert result["after"][0]["used_mib"] == 0
    assert 2 <= world.time_s < 2.5


def test_leak_is_reported_with_what_may_be_behind_it(world: World, guest: FakeContainer) -> None:
    world.hidden_mib[0] = 70000
    world.extra_apps = [ComputeApp("GPU-0", 4711, "[Not Found]", 70000)]
    world.process(701, "mapper")
    maps = "7f00-7f01 rw-s 00000000 00:05 12 /dev/nvidia0\n7f00-7f01 r--p 00000000 00:05 12 /lib/x\n"
    (world.root / "701/maps").write_text(maps)
    world.process(702, "opener", devices=["/dev/nvidia0"])
    world.guest(1803, "stuck", threads=[("D", "rwsem_down_write")])
    reaper = world.reaper(guest)
    error = failure(reaper)
    for words in (
        "GPU 0: 70000 MiB",
        "pids that do not run here: 4711",
        "map a GPU device: mapper (pid 701, host (ssh.service))",
        "keep a GPU device open without a compute context: opener",
        "stuck (pid 1803, container 129) in rwsem_down_write",
        "No GPU was reset",
    ):
        assert words in error.sentence
    assert reaper.result["leaked"] == [{"index": 0, "uuid": "GPU-0", "unaccounted_mib": 70000}]
    reaper = world.reaper(guest, allow_leak=True)
    assert not reaper.run()["changed"]
    assert reaper.warnings


def test_check_mode_predicts_and_touches_nothing(world: World, guest: FakeContainer) -> None:
    world.guest(1790, start=100, cgroup=UNIT_CGROUP)
    world.guest(1801, memory={0: 77824}, parent=1790, group=1790, session=1790, start=200, cgroup=UNIT_CGROUP)
    record = world.record_in_container(1790, start=100)
    guest.unit = UnitState("loaded", "active")
    result = world.reaper(guest, mode="all", check_mode=True).run()
    assert result["changed"]
    assert [row["pid"] for row in result["killed"]] == [1790, 1801]
    assert result["launches_removed"]
    assert "77824" in result["diff"]["before"]
    assert result["diff"]["after"].startswith("GPU 0: 0 of")
    assert record.exists()
    assert not world.signals
    assert not guest.stopped
    assert not world.reaper(guest, check_mode=True).run()["changed"]  # live: nothing would happen


def test_check_mode_does_not_take_teardown_for_a_leak(world: World, guest: FakeContainer) -> None:
    world.hidden_mib[0] = 70000
    reaper = world.reaper(guest, check_mode=True)
    assert reaper.run()["leaked"]
    assert reaper.warnings
