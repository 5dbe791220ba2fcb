"""The two modules in-process, against fake programs and this machine's real processes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.doc_fragments.gpu_node import ModuleDocFragment
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import gpu_cleaning
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_arguments import node_arguments
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_runbooks import RUNBOOKS
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.modules import gpu_holders_info, gpu_reap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Machine:
    """Two GPUs whose memory is that of the processes listed in ``held``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state_dir = directory / "state"
        self.smi = directory / "nvidia-smi"
        self.smi.write_text(
            "#!/usr/bin/env python3\n"
            "import json, os, sys, time\n"
            f"held = json.load(open({str(directory / 'held.json')!r}))\n"
            "held = [h for h in held if os.path.exists(f'/proc/{h[0]}/exe')]\n"
            "if 'compute' in sys.argv[1]:\n"
            "    [print(f'GPU-{g}, {p}, python3, {m}') for p, g, m in held]\n"
            "else:\n"
            "    for i in (0, 1):\n"
            "        print(f'{i}, GPU-{i}, 00000000:0{i}:00.0, {sum(m for p, g, m in held if g == i)}, 97887')\n"
        )
        self.smi.chmod(0o755)
        self.hold()

    def hold(self, *held: tuple[int, int, int]) -> None:
        (self.directory / "held.json").write_text(json.dumps(held))

    def record(self, leader: int) -> None:
        self.state_dir.mkdir(exist_ok=True)
        table = ProcessTable()
        content = {"launch_id": "one", "pid": leader, "session": leader, "start_ticks": table.start_ticks(leader)}
        (self.state_dir / "launch.json").write_text(json.dumps(content | {"boot_id": table.boot_id()}))

    def run(self, module: Any, capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
        given = {"ownership": "session", "state_dir": str(self.state_dir), "nvidia_smi": str(self.smi)} | arguments
        with patch_module_args(given), pytest.raises(SystemExit):
            module.main()
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return result


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        yield child
        child.kill()


def test_clean_is_unchanged_and_fast(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    result = machine.run(gpu_reap, capsys)
    assert not result["changed"]
    assert result["msg"] == "Nothing to clean on 2 GPUs."
    assert not machine.state_dir.exists()


def test_one_look_takes_less_than_three_tenths_of_a_second() -> None:
    started = time.process_time()  # not disturbed by what else the machine does
    ProcessTable().scan(lambda _: False)
    assert time.process_time() - started < 0.3


def test_launch_ends_and_foreign_is_named(
    machine: Machine, sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    machine.record(sleeper.pid)
    machine.hold((sleeper.pid, 0, 70000), (os.getpid(), 1, 20000))
    assert (
        machine.run(gpu_reap, capsys, fail_on_foreign=False)["msg"]
        == "Nothing to clean on 2 GPUs. The live launch was left alone."
    )
    result = machine.run(gpu_reap, capsys, mode="all", _ansible_check_mode=True)
    assert result["msg"].startswith("GPU memory is held by processes that are not ours")
    assert result["killed"][0]["pid"] == sleeper.pid
    result = machine.run(gpu_reap, capsys, mode="all")
    assert result["failed"]
    assert result["diagnosis"] == "foreign-gpu-user"
    assert result["killed"] == [{"pid": sleeper.pid, "name": "sleep", "signal": "TERM"}]
    assert f"pid {os.getpid()}" in result["msg"]
    assert result["launches_removed"] == [{"launch_id": "one", "pid": sleeper.pid}]
    result = machine.run(gpu_reap, capsys, mode="all", fail_on_foreign=False)
    assert not result["changed"]
    assert result["warnings"]


def test_check_mode_takes_no_lock(
    machine: Machine, sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    machine.record(sleeper.pid)
    before = sorted(machine.state_dir.iterdir())
    result = machine.run(gpu_reap, capsys, mode="all", _ansible_check_mode=True)
    assert result["msg"] == "1 process would be ended on 2 GPUs."
    assert sorted(machine.state_dir.iterdir()) == before
    assert sleeper.poll() is None


def test_container_that_is_not_here(machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "lock"
    for module, more in ((gpu_reap, {"lock_file": str(lock)}), (gpu_holders_info, {})):
        result = machine.run(module, capsys, ownership="container", vmid=129, pct="/bin/false", **more)
        assert "Container 129 is not a container of this node" in result["msg"]
        assert result["next_steps"]
        assert result["runbook"] == "docs/runbooks/container-unreachable.md"
    assert lock.exists()


def test_container_number_is_required(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert "vmid" in machine.run(gpu_reap, capsys, ownership="container")["msg"]


def test_lock_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(gpu_cleaning, "exclusive", lambda path, _limit: asked.append(path))
    parameters = {
        "ownership": "container",
        "vmid": 129,
        "lock_file": None,
        "grace_s": 1,
        "kill_wait_s": 1,
        "settle_s": 1,
    }
    gpu_cleaning.lock_for(parameters, check_mode=False)
    assert asked == ["/run/sglang-gpu-reap-129.lock"]


def test_holders_info(machine: Machine, sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]) -> None:
    machine.record(sleeper.pid)
    machine.hold((sleeper.pid, 0, 70000), (os.getpid(), 1, 20000))
    result = machine.run(gpu_holders_info, capsys)
    assert not result["changed"]
    assert result["container_running"] is None
    assert [(gpu["ours_mib"], gpu["foreign_mib"]) for gpu in result["gpus"]] == [(70000, 0), (0, 20000)]
    assert {holder["pid"]: holder["class"] for holder in result["holders"]} == {
        sleeper.pid: "ours",
        os.getpid(): "foreign",
    }
    assert result["launches"] == [{"launch_id": "one", "pid": sleeper.pid, "status": "alive", "members": [sleeper.pid]}]
    assert "sleep pid" in result["table"]


@pytest.mark.parametrize("module", [gpu_reap, gpu_holders_info])
def test_documentation_lists_the_arguments(module: Any) -> None:
    documentation = yaml.safe_load(module.DOCUMENTATION)
    assert documentation["extends_documentation_fragment"] == ["sglang_ops.eagle3.gpu_node"]
    options = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"] | documentation.get("options", {})
    specification = gpu_reap.argument_spec() if module is gpu_reap else node_arguments()
    assert set(options) == set(specification)
    for name, argument in specification.items():
        option = options[name]
        assert (option["type"], option.get("default")) == (argument["type"], argument.get("default"))
    assert yaml.safe_load(module.EXAMPLES)
    assert yaml.safe_load(module.RETURN)


def test_runbooks_are_named_after_their_diagnosis() -> None:
    assert all(path == f"docs/runbooks/{diagnosis}.md" for diagnosis, path in RUNBOOKS.items())
