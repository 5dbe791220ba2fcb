from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import Gpu
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_view import minor_of
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import (
    parse_cgroup,
    parse_namespace_ids,
    parse_stat,
    parse_thread_state,
    title_of,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plugins.module_utils.gpu_world import World, stat_line

if TYPE_CHECKING:
    from pathlib import Path


@given(st.text(max_size=15), st.sampled_from("RSDZTtXI"), st.integers(1, 2**22), st.integers(0, 2**40))
def test_any_process_name_leaves_the_fields_readable(name: str, state: str, pid: int, start: int) -> None:
    process = parse_stat(stat_line(pid, name, state=state, parent=3, group=4, session=5, start=start))
    assert (process.pid, process.name, process.state, process.start_ticks) == (pid, name, state, start)
    assert (process.parent, process.group, process.session) == (3, 4, 5)


@pytest.mark.parametrize("text", ["", "garbage", "1 (x) S 1 2 3", ") 1 ("])
def test_other_text_is_no_stat_line(text: str) -> None:
    with pytest.raises(ValueError, match="stat line"):
        parse_stat(text)


def test_only_the_unified_line_counts() -> None:
    assert parse_cgroup("9:name=systemd:/lxc/129\n0::/lxc/130/ns\n") == "/lxc/130/ns"
    assert parse_cgroup("9:name=systemd:/lxc/129\n") == ""


def test_status_fields() -> None:
    assert parse_namespace_ids("NSpid:\t900\t5\nNSsid:\t900\t5\n").pids == (900, 5)
    assert parse_namespace_ids("Name:\tx\n").pids == ()
    assert parse_thread_state("Name:\tx\nState:\tD (disk sleep)\n") == "D"
    assert parse_thread_state("") == "?"


@pytest.mark.parametrize(
    ("argv", "title"),
    [
        ([""], ""),
        (["sglang::scheduler_TP0", "", ""], "sglang::scheduler_TP0"),
        (
            ["/root/ml-env/bin/python3", "-m", "sglang.launch_server", "--api-key", "x"],
            "python3 -m sglang.launch_server",
        ),
        (["python3", "/srv/train.py", "secret"], "python3 train.py"),
        (["python3", "-c", "print('secret')"], "python3"),
        (["python3"], "python3"),
        (["python3", "-m"], "python3"),
        (["nginx: worker process"], "nginx:"),
    ],
)
def test_titles_carry_no_arguments(argv: list[str], title: str) -> None:
    assert title_of(argv) == title


def test_kernel_threads_and_vanished_processes_are_left_out(tmp_path: Path) -> None:
    world = World(tmp_path / "proc")
    world.process(2, "kthreadd", flags=0x00200000)
    world.process(30, "shell")
    (world.root / "31").mkdir()
    assert set(ProcessTable(str(world.root)).scan(lambda _: True)) == {30}


def test_device_numbers_of_the_driver(tmp_path: Path) -> None:
    world = World(tmp_path / "proc")
    table = ProcessTable(str(world.root))
    gpu = Gpu(0, "GPU-0", "00000000:C1:00.0", 0, 1)
    assert minor_of(gpu, table.device_minors()) == 0
    for name, text in (("0000:c1:00.0", "Model: \t x\nDevice Minor: \t 3\n"), ("0000:c2:00.0", "Device Minor: ?\n")):
        (world.root / "driver/nvidia/gpus" / name).mkdir(parents=True)
        (world.root / "driver/nvidia/gpus" / name / "information").write_text(text)
    assert minor_of(gpu, table.device_minors()) == 3


def test_this_very_process() -> None:
    table = ProcessTable()
    me = table.scan(lambda process: process.pid == os.getpid())[os.getpid()]
    assert me.parent == os.getppid()
    assert me.session == os.getsid(0)
    assert me.namespace_pid in (0, os.getpid())
    assert me.title.startswith("python")
    assert table.is_alive(me.pid, me.start_ticks)
    assert not table.is_alive(me.pid, me.start_ticks + 1)
    assert any(thread.tid == me.pid for thread in table.threads(me.pid))
    assert len(table.boot_id()) == 36
    assert table.mapped_devices(me.pid) == ()
