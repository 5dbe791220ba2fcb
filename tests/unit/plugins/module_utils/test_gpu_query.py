from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_container import (
    Container,
    UnitState,
    full_unit_name,
    parse_unit_state,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_lock import exclusive
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_query import NvidiaSmi
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_command import (
    CommandNotFoundError,
    CommandTimeoutError,
    run_bounded,
)

from tests.unit.plugins.programs import program

if TYPE_CHECKING:
    from pathlib import Path


def test_output_and_status_come_back(tmp_path: Path) -> None:
    result = run_bounded([program(tmp_path / "program", "echo out; echo '  two   words ' >&2; exit 3")], 10)
    assert (result.returncode, result.stdout, result.words()) == (3, "out\n", "two words")
    assert run_bounded([program(tmp_path / "program", "true")], 10).words() == "(no output)"


def test_a_missing_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandNotFoundError, match="No such file"):
        run_bounded([str(tmp_path / "none")], 1)


def test_a_hanging_program_and_its_children_are_ended_in_time(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(CommandTimeoutError, match=r"gave no answer within 0\.2 s"):
        run_bounded([program(tmp_path / "program", "sleep 60 & sleep 60")], 0.2)
    assert time.monotonic() - started < 2


def test_nvidia_smi_answers(tmp_path: Path) -> None:
    body = 'case "$1" in *gpu=*) echo "0, GPU-1, 00000000:01:00.0, 4, 97887";; *) echo "GPU-1, 17, python3, 4";; esac'
    smi = NvidiaSmi(program(tmp_path / "program", body), 10)
    assert [gpu.used_mib for gpu in smi.gpus()] == [4]
    assert [app.pid for app in smi.compute_apps()] == [17]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "echo 'NVIDIA-SMI has failed because it could not communicate'; exit 9",
            "status 9: NVIDIA-SMI has failed because",
        ),
        ("sleep 60", "the driver does not respond"),
        ("echo gibberish", "answered something unexpected: expected"),
    ],
)
def test_nvidia_smi_that_fails_ends_in_its_own_words(tmp_path: Path, body: str, words: str) -> None:
    smi = NvidiaSmi(program(tmp_path / "program", body), 0.3)
    for ask in (smi.gpus, smi.compute_apps):
        with pytest.raises(GpuError, match=words) as caught:
            ask()
        assert caught.value.diagnosis == "nvidia-smi-fails"
        assert "Next: (1) " in caught.value.message()
        assert caught.value.message().endswith("Runbook: docs/runbooks/nvidia-smi-fails.md.")


def test_nvidia_smi_missing_or_without_gpus(tmp_path: Path) -> None:
    with pytest.raises(GpuError, match="cannot be started"):
        NvidiaSmi(str(tmp_path / "none"), 1).gpus()
    with pytest.raises(GpuError, match="shows no GPU"):
        NvidiaSmi(program(tmp_path / "program", "true"), 5).gpus()


PCT = """
case "$1 $2" in
"status 129") echo "status: running";;
"status 130") echo "status: stopped";;
"exec 129") shift 5; [ "$1 $2 $3" = "systemctl show bad.service" ] && { echo no bus >&2; exit 1; }
  [ "$1 $2 $3" = "systemctl stop bad.service" ] && { echo timed out >&2; exit 1; }
  [ "$1 $2 $3" = "systemctl stop slow.service" ] && sleep 60
  [ "$1 $2 $3" = "systemctl reset-failed bad.service" ] && { echo denied >&2; exit 1; }
  [ "$1 $2 $3" = "systemctl reset-failed gone.service" ] && { echo "Unit gone.service not loaded." >&2; exit 1; }
  [ "$1 $2 $3" = "systemctl reset-failed slow.service" ] && sleep 60
  printf 'LoadState=loaded\\nActiveState=active\\n';;
*) echo "Configuration file 'nodes/pve/lxc/$2.conf' does not exist" >&2; exit 2;;
esac
"""


def test_container(tmp_path: Path) -> None:
    pct = program(tmp_path / "program", PCT)
    guest = Container(pct, 129, 5)
    assert guest.is_running()
    assert not Container(pct, 130, 5).is_running()
    assert guest.unit_state("sglang.service") == UnitState("loaded", "active")
    assert guest.stop_unit("sglang.service", 5) == ""
    assert "timed out" in guest.stop_unit("bad.service", 5)
    assert guest.forget_failure("sglang.service") == guest.forget_failure("gone.service") == ""
    assert "reset-failed bad.service failed in container 129: denied" in guest.forget_failure("bad.service")
    assert "no answer within 0.2 s" in Container(pct, 129, 0.2).forget_failure("slow.service")
    assert "no answer within 0.2 s" in guest.stop_unit("slow.service", 0.2)
    with pytest.raises(GpuError, match=r"does not say whether bad\.service runs: no bus"):
        guest.unit_state("bad.service")
    with pytest.raises(GpuError, match=r"not a container of this node: pct says .*does not exist"):
        Container(pct, 131, 5).is_running()
    with pytest.raises(GpuError, match="not a Proxmox host"):
        Container(str(tmp_path / "none"), 129, 5).is_running()


@pytest.mark.parametrize(
    ("text", "exists", "running"),
    [
        ("LoadState=not-found\nActiveState=inactive\n", False, False),
        ("LoadState=loaded\nActiveState=activating\nnoise", True, True),
        ("LoadState=loaded\nActiveState=failed\n", True, False),
        ("", False, False),
    ],
)
def test_unit_states(text: str, exists: bool, running: bool) -> None:
    state = parse_unit_state(text)
    assert (state.exists, state.running) == (exists, running)


@pytest.mark.parametrize(
    ("unit", "full"), [("", ""), ("sglang", "sglang.service"), ("sglang.service", "sglang.service")]
)
def test_unit_names(unit: str, full: str) -> None:
    assert full_unit_name(unit) == full


def test_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with (
        exclusive(path, 0),
        pytest.raises(GpuError, match=r"Another cleaning holds .* for more than 0\.2 s"),
        exclusive(path, 0.2),
    ):
        pass
    with exclusive(path, 0):
        pass
    with pytest.raises(GpuError, match="cannot be opened"), exclusive(str(tmp_path), 0):
        pass
