from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.exits import InputError
from controller.inventory import Target, ansible_environment, read_target

GOOD = """
inference:
  hosts:
    box: {ansible_host: 192.0.2.9, proxmox_vmid: 129, sglang_server_manager: process, sglang_server_log_dir: /logs}
proxmox:
  hosts: {pve: {}}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(text)
    return path


def test_the_host_its_variables_and_the_proxmox_host(tmp_path: Path) -> None:
    target = read_target(written(tmp_path, GOOD))
    assert (target.host, target.address, target.manager, target.log_directory) == (
        "box",
        "192.0.2.9",
        "process",
        "/logs",
    )
    assert target.proxmox == ("pve",)
    assert target.lock_identity == {"address": "192.0.2.9", "vmid": "129"}
    assert not target.simulated
    assert target.title == "box (192.0.2.9)"


def test_hosts_of_child_groups_count(tmp_path: Path) -> None:
    path = written(tmp_path, "inference:\n  children:\n    gpus: {hosts: {a: {}, b: {}}}\n")
    assert read_target(path, "b").host == "b"
    with pytest.raises(InputError, match="several hosts"):
        read_target(path)
    with pytest.raises(InputError, match="--limit c"):
        read_target(path, "c")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("all:\n  hosts: {a: }\n", "no host in the group 'inference'"),
        ("inference:\n  hosts:\n", "no host in the group 'inference'"),
        ("inference:\n  hosts: [unclosed\n", r"cannot be read: .*\(.*hosts\.yml:\d+:\d+\)"),
        ("", "no host in the group|cannot be read"),
        ("\x00\x01", "no host in the group|cannot be read"),
    ],
)
def test_a_bad_inventory_is_one_sentence(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        read_target(written(tmp_path, text))
    assert "\n" not in caught.value.sentence
    assert caught.value.sentence.endswith(".")


def test_a_missing_inventory_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no inventory at"):
        read_target(tmp_path / "nothing.yml")


def test_trouble_with_the_command_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, GOOD)

    def answer(error: Exception | None = None, **result: Any) -> None:
        def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
            if error:
                raise error
            return subprocess.CompletedProcess(command, **{"returncode": 0, "stdout": "", "stderr": "", **result})

        monkeypatch.setattr(subprocess, "run", run)

    answer(FileNotFoundError())
    with pytest.raises(InputError, match="not installed"):
        read_target(path)
    answer(subprocess.TimeoutExpired("x", 1))
    with pytest.raises(InputError, match="more than 60 s"):
        read_target(path)
    answer(stdout="no json")
    with pytest.raises(InputError, match="printed no JSON"):
        read_target(path)
    answer(stdout="[]")
    with pytest.raises(InputError, match="no host"):
        read_target(path)
    answer(returncode=1, stderr="")
    with pytest.raises(InputError, match="without a message"):
        read_target(path)
    answer(returncode=1, stderr="[ERROR]: cannot open the vault\n")
    with pytest.raises(InputError, match="cannot be read: cannot open the vault"):
        read_target(path)


def test_the_simulated_node_is_its_own_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(Path("/i"), "simulated", {"simulator_node": "{{ lookup('env', 'CONTROLLER_SIMULATOR_NODE') }}"})
    monkeypatch.delenv("CONTROLLER_SIMULATOR_NODE", raising=False)
    first = target.lock_identity
    assert str(first["simulator_node"]).endswith("/.simulator/node"), "two checkouts are two machines"
    monkeypatch.setenv("CONTROLLER_SIMULATOR_NODE", "/other")
    assert target.lock_identity != first
    named = Target(Path("/i"), "simulated", {"simulator_node": "/node"})
    assert named.lock_identity["simulator_node"] == "/node"
    assert target.title == "simulated (simulated)"
    assert target.manager == "systemd"
    assert target.log_directory is None


def test_ansible_runs_with_this_interpreter_and_checks_host_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.delenv("ANSIBLE_HOST_KEY_CHECKING", raising=False)
    environment = ansible_environment()
    assert environment["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"
    assert environment["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert environment["ANSIBLE_CONFIG"].endswith("/ansible.cfg")
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    assert ansible_environment()["ANSIBLE_HOST_KEY_CHECKING"] == "False"


def test_a_host_that_runs_its_model_with_others_is_refused_where_it_would_be_restarted_alone(tmp_path: Path) -> None:
    group = "inference: {hosts: {a: {}, b: {}}, vars: {sglang_server_nnodes: 2}}\n"
    path = written(tmp_path, group)
    assert read_target(path, "b").machines == 2
    for limit in (None, "b"):
        with pytest.raises(InputError, match=r"together with others \(sglang_server_nnodes is 2\)"):
            read_target(path, limit, alone=True)
    assert read_target(written(tmp_path, GOOD), alone=True).machines == 1
