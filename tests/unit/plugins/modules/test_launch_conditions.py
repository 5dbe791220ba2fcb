from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import gpu_sampling
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_sampler import GpuSampler
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_sampling import Summary, parse_sample
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.node_identity import (
    gpu_identity,
    model_identity,
    package_versions,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.modules import launch_conditions as module

from tests.unit.plugins.programs import program

if TYPE_CHECKING:
    from collections.abc import Callable

ROW = "0, 2430, 46, 87.40, 77824, 0x0000000000000000\n1, 900, 95, [N/A], 77824, 0x0000000000000048\n"
IDLE = "0, 180, 34, 14.85, 77824, 0x0000000000000001\n1, 180, 34, 14.85, 79872, 0x0000000000000001\n"


@pytest.fixture
def smi(tmp_path: Path) -> str:
    """An nvidia-smi of an older driver: it knows the old name of the reasons only."""
    return program(
        tmp_path / "nvidia-smi",
        'case "$1" in *clocks_event*) exit 2;; *uuid*) printf "GPU-b, 580.95, X\\nGPU-a, 580.95, X\\n";; '
        f"*) printf '{ROW.replace(chr(10), chr(92) + 'n')}';; esac",
    )


@pytest.fixture
def call(tmp_path: Path, smi: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    (tmp_path / "state").mkdir()

    def run(*, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {"state_dir": str(tmp_path / "state"), "nvidia_smi": smi, "interval_s": 0.1, **options}
        with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit):
            module.main()
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return result

    return run


def health(tmp_path: Path, launch: str, phase: str = "serving") -> None:
    (tmp_path / "state" / "health.json").write_text(json.dumps({"launch_id": launch, "phase": phase}))


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 10
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def running(tmp_path: Path) -> int | None:
    note = json.loads((tmp_path / "state" / "gpu_sampler.json").read_text())
    return note["pid"] if ProcessTable().is_alive(note["pid"], note["start_ticks"]) else None


def test_a_launch_is_sampled_from_when_it_serves_until_the_next_call(
    tmp_path: Path, call: Callable[..., dict[str, Any]]
) -> None:
    first = call(sampler="started")
    assert first["previous"] is None
    assert first["identity"]["GPUs"] == "GPU-a GPU-b"
    pid = running(tmp_path)
    assert pid is not None
    assert os.getsid(pid) == pid
    health(tmp_path, "one", "weights")
    time.sleep(0.5)
    assert not (tmp_path / "state" / "gpu_samples.json").exists()
    health(tmp_path, "one")
    wait_for(tmp_path / "state" / "gpu_samples.json")
    second = call(sampler="stopped")
    assert second["previous"]["launch_id"] == "one"
    gpu = second["previous"]["gpu"]
    assert gpu["samples"] >= 1
    assert (gpu["sm_mhz_lowest"], gpu["temperature_c"], gpu["power_w"]) == (900.0, 95.0, 87.4)
    assert gpu["throttling"] == {"hw_slowdown": 1.0, "hw_thermal_slowdown": 1.0}
    assert gpu["memory_growth_mib"] == 0.0
    os.waitpid(pid, 0)
    assert call(sampler="stopped")["previous"] is None
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["health.json"]


def test_check_mode_and_a_look_leave_the_sampler_alone(tmp_path: Path, call: Callable[..., dict[str, Any]]) -> None:
    call(sampler="started", check=True)
    assert list((tmp_path / "state").iterdir()) == []
    call(sampler="started")
    pid = running(tmp_path)
    assert call()["previous"] is None
    assert running(tmp_path) == pid
    call(sampler="stopped")


def test_a_state_directory_that_is_missing_is_one_sentence(call: Callable[..., dict[str, Any]]) -> None:
    result = call(sampler="started", state_dir="/proc/nowhere")
    assert result["failed"]
    assert "cannot be started in /proc/nowhere" in result["msg"]
    command_lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert not any(b"/proc/nowhere/health.json" in words for words in command_lines)


def test_the_sampler_ends_with_the_next_launch_and_without_nvidia_smi(tmp_path: Path, smi: str) -> None:
    (tmp_path / "state").mkdir()
    health(tmp_path, "one")
    paths = (str(tmp_path / "state" / "health.json"), str(tmp_path / "state" / "gpu_samples.json"))
    gpu_sampling.watch(*paths, "/nowhere", 0.01)
    assert not (tmp_path / "state" / "gpu_samples.json").exists()
    gpu_sampling.watch(*paths, smi, 0.01, 0.2)
    assert json.loads((tmp_path / "state" / "gpu_samples.json").read_text())["launch_id"] == "one"
    other = program(tmp_path / "smi2", f'echo \'{{"launch_id": "two", "phase": "serving"}}\' > {paths[0]}; {smi} $1')
    gpu_sampling.watch(*paths, other, 0.01)
    assert json.loads((tmp_path / "state" / "gpu_samples.json").read_text())["gpu"]["samples"] == 1


def test_a_stale_note_of_the_health_module_is_not_taken_for_the_new_launch(tmp_path: Path) -> None:
    path = tmp_path / "health.json"
    assert gpu_sampling.serving_launch(str(path), 0) is None
    path.write_text('{"launch_id": "one", "phase": "serving"}')
    assert gpu_sampling.serving_launch(str(path), time.time() + 60) is None
    assert gpu_sampling.serving_launch(str(path), 0) == "one"
    path.write_text("[]")
    assert gpu_sampling.serving_launch(str(path), 0) is None


def test_the_sampler_ends_with_its_launcher(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert gpu_sampling.launcher_is_gone(str(state))
    state.mkdir()
    assert not gpu_sampling.launcher_is_gone(str(state))
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    record = state / "launch.json"
    for pid, start_ticks, gone in ((os.getpid(), ticks, False), (os.getpid(), ticks + 1, True), (2**22 + 1, 1, True)):
        record.write_text(json.dumps({"pid": pid, "start_ticks": start_ticks}))
        assert gpu_sampling.launcher_is_gone(str(state)) is gone
    begin = time.monotonic()
    gpu_sampling.watch(str(state / "health.json"), str(state / "gpu.json"), "nvidia-smi", 0.1, longest_s=20)
    assert time.monotonic() - begin < 10
    record.write_text("{")
    assert not gpu_sampling.launcher_is_gone(str(state))


def test_idle_clocks_are_no_slow_clocks_and_growing_memory_is_seen() -> None:
    summary = Summary()
    assert summary.as_json()["sm_mhz_lowest"] is None
    for text in (ROW, IDLE):
        summary.add(parse_sample(text))
    found = summary.as_json()
    assert found["sm_mhz_lowest"] == 900.0
    assert found["memory_growth_mib"] == 2048.0
    assert found["throttling"] == {"hw_slowdown": 0.5, "hw_thermal_slowdown": 0.5}


def test_what_nvidia_smi_does_not_give_is_unknown() -> None:
    (gpu,) = parse_sample("0, [N/A], [N/A], [N/A], [N/A], [N/A]\n\n")
    assert gpu == {
        "index": 0.0,
        "sm_mhz": None,
        "temperature_c": None,
        "power_w": None,
        "memory_mib": None,
        "reasons": 0,
    }
    Summary().add([gpu])
    with pytest.raises(ValueError, match="expected 6 fields"):
        parse_sample("0, 1")


def test_packages_of_an_environment(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    for name in (
        "sglang-0.5.15",
        "torch-2.11.0+cu130",
        "nvidia_nccl_cu13-2.28.3",
        "requests-2.32",
        "sglang_router-1.0",
    ):
        (site / f"{name}.dist-info").mkdir(parents=True)
    assert package_versions(str(tmp_path / "bin" / "python3")) == {
        "package sglang": "0.5.15",
        "package torch": "2.11.0+cu130",
        "package nvidia-nccl-cu13": "2.28.3",
    }
    assert package_versions("") == {}


def test_a_model_is_known_by_its_configuration_and_its_weights(tmp_path: Path) -> None:
    assert model_identity("") == {}
    assert model_identity("org/model") == {}
    (tmp_path / "config.json").write_text("{}")
    assert set(model_identity(str(tmp_path))) == {f"{tmp_path}/config.json"}
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"1234")
    (tmp_path / "gone.safetensors").symlink_to("/nowhere")
    before = model_identity(str(tmp_path))
    weights.write_bytes(b"12345")
    after = model_identity(str(tmp_path))
    assert before[f"{tmp_path} (weights)"] != after[f"{tmp_path} (weights)"]
    assert before[f"{tmp_path}/config.json"] == after[f"{tmp_path}/config.json"]


@pytest.mark.parametrize("body", ["exit 9", "echo", "echo a,b,c,d"])
def test_without_a_working_nvidia_smi_the_gpus_are_not_known(tmp_path: Path, body: str) -> None:
    assert gpu_identity(program(tmp_path / "smi", body)) == {}
    assert gpu_identity("/nowhere") == {}


def test_gpus_are_known_by_number_and_by_kind(tmp_path: Path) -> None:
    body = 'printf "GPU-2, 580.95, NVIDIA B\\nGPU-1, 580.95, NVIDIA A\\nGPU-3, 580.95, NVIDIA A\\n"'
    assert gpu_identity(program(tmp_path / "smi", body)) == {
        "GPUs": "GPU-1 GPU-2 GPU-3",
        "GPU kinds": "2 x NVIDIA A, 1 x NVIDIA B",
        "driver": "580.95",
    }


def test_weights_with_other_times_have_the_same_sizes(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"1234")
    before = model_identity(str(tmp_path))
    os.utime(weights, (1.0, 1.0))
    after = model_identity(str(tmp_path))
    assert before[f"{tmp_path} (weights)"] != after[f"{tmp_path} (weights)"]
    assert before[f"{tmp_path} (weight sizes)"] == after[f"{tmp_path} (weight sizes)"]


def test_a_note_of_a_process_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "gpu_sampler.json").write_text(json.dumps({"pid": os.getpid(), "start_ticks": 1}))
    (tmp_path / "gpu_samples.json").write_text("[]")
    assert GpuSampler(str(tmp_path), ProcessTable()).stop() is None
