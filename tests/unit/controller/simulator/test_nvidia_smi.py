import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.simulator.bin import nvidia_smi

MIB = 1 << 20
GPUS = [
    {"index": i, "uuid": f"GPU-{i}", "name": "Card", "pci_bus_id": f"00000000:0{i}:00.0", "memory_total_mib": 97887}
    for i in range(2)
]


@pytest.fixture
def gpu_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "gpu0").mkdir()
    settings = {"gpus": GPUS, "driver_version": "1.2"}
    monkeypatch.setattr(nvidia_smi, "node_settings", lambda: (settings, str(tmp_path)))
    return tmp_path


@pytest.fixture
def holder(gpu_dir: Path) -> Iterator[int]:
    program = (
        "import fcntl, os, sys\n"
        f"file = open({str(gpu_dir / 'gpu0' / 'a.alloc')!r}, 'w')\n"
        f"fcntl.lockf(file, fcntl.LOCK_EX); os.truncate(file.name, 500 * {MIB})\n"
        "print(flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_owner_and_size_are_reported(holder: int, capsys: pytest.CaptureFixture[str]) -> None:
    query = "--query-compute-apps=gpu_uuid,pid,process_name,used_memory"
    assert nvidia_smi.main([query, "--format=csv,noheader,nounits"]) == 0
    assert capsys.readouterr().out == f"GPU-0, {holder}, {sys.executable}, 500\n"


@pytest.mark.usefixtures("holder")
def test_units_and_header(gpu_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (gpu_dir / "gpu0" / "old.leak").touch()
    os.truncate(gpu_dir / "gpu0" / "old.leak", 11 * MIB)
    assert nvidia_smi.main(["--query-gpu=index,memory.used,memory.free,temperature.gpu", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "index, memory.used [MiB], memory.free [MiB], temperature.gpu"
    assert lines[1] == f"0, 511 MiB, {97887 - 511} MiB, 46"
    assert lines[2].startswith("1, 0 MiB,")


@pytest.mark.usefixtures("gpu_dir")
def test_every_documented_field(capsys: pytest.CaptureFixture[str]) -> None:
    fields = (
        "timestamp,index,uuid,gpu_uuid,name,pci.bus_id,memory.used,memory.total,memory.free,utilization.gpu,power.draw,"
        "clocks.sm,temperature.gpu,driver_version,clocks_throttle_reasons.active,clocks_event_reasons.active,count"
    )
    assert nvidia_smi.main([f"--query-gpu={fields}", "--format=csv,noheader", "-i", "1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert len(line.split(", ")) == len(fields.split(","))


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["--query-gpu=nonsense", "--format=csv"], 2, 'Field "nonsense" is not a valid field to query.'),
        (["--query-compute-apps=index", "--format=csv"], 2, 'Field "index" is not a valid field to query.'),
        (["--query-gpu=index"], 1, '"--format=" switch is missing.'),
        (["--frobnicate"], 1, "Invalid combination of input arguments."),
        (["--query-gpu=index", "--format"], 1, "Invalid combination of input arguments."),
        (["--query-gpu=index", "--format=csv", "-i", "9"], 6, "No devices were found"),
        (["-L"], 0, "GPU 1: Card (UUID: GPU-1)"),
        ([], 0, "No running processes found"),
    ],
)
@pytest.mark.usefixtures("gpu_dir")
def test_texts_and_statuses(arguments: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert nvidia_smi.main(arguments) == status
    assert text in capsys.readouterr().out


def test_a_dead_driver(gpu_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (gpu_dir / "fail").touch()
    assert nvidia_smi.main(["-L"]) == 9
    assert "couldn't communicate with the NVIDIA driver" in capsys.readouterr().out


def test_an_unlocked_file_counts_for_nothing(gpu_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = gpu_dir / "gpu0" / "stale.alloc"
    stale.touch()
    os.truncate(stale, 500 * MIB)
    assert nvidia_smi.main(["--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]) == 0
    assert capsys.readouterr().out == "0\n"
    with stale.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the other kind of lock does not make an owner either
        assert nvidia_smi.lock_owner(str(stale)) is None
