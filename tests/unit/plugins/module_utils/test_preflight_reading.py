"""What the preflight reads: a directory that looks like /, model folders, interpreters that answer and that do not."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any

from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_model_checks as model_checks
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_read_driver as read_driver
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_read_packages as read_packages
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_read_system as read_system
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

from tests.unit.plugins import draft_models as models
from tests.unit.plugins.programs import python_program

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def write(path: Path, text: str | bytes = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def pci_config(*, redirects: bool, size: int = 4096) -> bytes:
    data = bytearray(4096)
    struct.pack_into("<I", data, 0x100, 0x0001 | 1 << 16 | 0x140 << 20)
    struct.pack_into("<I", data, 0x140, 0x000D | 1 << 16)
    struct.pack_into("<H", data, 0x146, 0x0C if redirects else 0)
    return bytes(data[:size])


def pci_tree(root: Path, config: bytes) -> None:
    bridge = root / "sys/devices/pci0000:00/0000:00:01.0"
    gpu = bridge / "0000:01:00.0"
    write(bridge / "class", "0x060400\n")
    write(bridge / "config", config)
    write(gpu / "class", "0x030200\n")
    write(gpu / "vendor", "0x10de\n")
    write(gpu / "iommu_group/type", "DMA-FQ\n")
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:01:00.0").symlink_to(gpu)
    write(root / "sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "N\n")


def test_pcie(tmp_path: Path) -> None:
    assert read_driver.read_pcie(str(tmp_path)).redirecting is None
    pci_tree(tmp_path / "a", pci_config(redirects=True))
    facts = read_driver.read_pcie(str(tmp_path / "a"))
    assert facts.iommu == {"0000:01:00.0": "DMA-FQ"}
    assert facts.redirecting == ["0000:00:01.0"]
    assert facts.hmm is True
    pci_tree(tmp_path / "b", pci_config(redirects=False))
    assert read_driver.read_pcie(str(tmp_path / "b")).redirecting == []
    pci_tree(tmp_path / "c", pci_config(redirects=True, size=64))
    assert read_driver.read_pcie(str(tmp_path / "c")).redirecting is None
    (tmp_path / "c/sys/devices/pci0000:00/0000:00:01.0/config").unlink()
    assert read_driver.read_pcie(str(tmp_path / "c")).redirecting is None
    pci_tree(tmp_path / "d", bytes(4096))
    assert read_driver.read_pcie(str(tmp_path / "d")).redirecting == []


def test_driver(tmp_path: Path) -> None:
    assert read_driver.read_driver("no-such-program", 5, str(tmp_path)).module is None
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"
    write(tmp_path / "proc/driver/nvidia/version", text)
    write(tmp_path / "usr/lib64/libnvidia-ml.so.580.95.05")
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.95.05")
    smi = python_program(
        tmp_path / "smi", "import sys\nprint('12.0' if 'compute_cap' in sys.argv[1] else '0, [N/A], 5, 0')"
    )
    facts = read_driver.read_driver(smi, 5, str(tmp_path))
    assert (facts.module, facts.library) == ("580.95.05", "580.95.05")
    assert facts.gpus == [{"index": "0", "mig": "[N/A]", "driver": "5", "ecc": "0", "capability": "12.0"}]
    assert read_driver.capability_of(facts) == (12, 0)
    broken = python_program(tmp_path / "broken", "import sys\nsys.exit('Driver/library version mismatch')")
    assert "mismatch" in read_driver.read_driver(broken, 5, str(tmp_path)).smi_error
    old = python_program(tmp_path / "old", "import sys\nsys.exit(2) if 'cap' in sys.argv[1] else print('0, a, 5, 0')")
    assert read_driver.capability_of(read_driver.read_driver(old, 5)) is None
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").unlink()
    write(tmp_path / "usr/lib64/libnvidia-ml.so.1")
    assert read_driver.read_driver("no-such-program", 5, str(tmp_path)).library is None


def test_kernel_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_driver.read_kernel_log(5) is None
    python_program(tmp_path / "journalctl", "print('from the journal')")
    assert read_driver.read_kernel_log(5) == "from the journal\n"


def test_devices_and_shared_memory(tmp_path: Path) -> None:
    assert read_system.read_devices(str(tmp_path)).majors == {}
    write(tmp_path / "proc/devices", "Character devices:\n  1 mem\n195 nvidia\n511 nvidia-uvm\n")
    write(tmp_path / "dev/nvidia0")
    (tmp_path / "dev/nvidia-uvm").mkdir()
    write(tmp_path / "dev/nvidia-modeset")
    facts = read_system.read_devices(str(tmp_path))
    assert facts.majors == {"nvidia": 195, "nvidia-uvm": 511}
    assert set(facts.nodes) == {"/dev/nvidia0", "/dev/nvidia-uvm"}
    assert facts.nodes["/dev/nvidia0"][1] == ""
    assert facts.nodes["/dev/nvidia-uvm"][1] != ""
    write(tmp_path / "nccl-abc", "12345")
    size, free, names, total = read_system.read_shared_memory(str(tmp_path))
    assert size is not None
    assert size >= free > 0
    assert (names, total) == (["nccl-abc"], 5)
    assert read_system.read_shared_memory(str(tmp_path / "none"))[0] is None
    assert len(read_system.read_limits()) == 2


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = write(tmp_path / "mounts", f"x / ext4 rw\nserver:/x {tmp_path} nfs4 rw\nbroken\n")
    place = read_system.read_place(str(tmp_path / "a/b"), "", str(mounts))
    assert (place.exists_at, place.writable, place.filesystem) == (str(tmp_path), True, "nfs4")
    assert read_system.read_place(str(tmp_path), "somebody-else").writable is None
    monkeypatch.setattr(os, "geteuid", lambda: 987654)
    assert read_system.read_place(str(tmp_path), "root", str(tmp_path / "none")).filesystem == ""
    assert read_system.cache_directories({"HOME": "/h"}, "") == ["/h/.triton/cache", "/h/.cache/flashinfer"]
    assert read_system.cache_directories({"TRITON_CACHE_DIR": "/t"}, "root")[0] == "/t"
    assert read_system.cache_directories({}, "nobody-of-that-name")[1] == "/home/nobody-of-that-name/.cache/flashinfer"


def test_port(tmp_path: Path) -> None:
    table = ProcessTable()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        state = read_system.read_port("127.0.0.1", port, str(tmp_path), "", table)
        assert state.listening
        assert not state.ours
        assert not read_system.read_port("127.0.0.2", port, str(tmp_path), "", table).listening
        assert str(os.getpid()) in state.owners[0]
        own = table.read(os.getsid(0)) or table.read(os.getpid())
        assert own is not None
        record = {"schema": 1, "launch_id": "x", "manager": "process", "unit": None, "pid": own.pid, "session": own.pid}
        record |= {"start_ticks": own.start_ticks, "boot_id": table.boot_id(), "started_at": 1.0, "argv": []}
        record |= {"environment": {}, "log_file": "/l", "fingerprint": "f", "port": port, "owner": ""}
        write(tmp_path / "launch.json", json.dumps(record))
        assert read_system.live_leader(str(tmp_path), table) == own.pid
        assert read_system.read_port("127.0.0.1", port, str(tmp_path), "", table).ours == (own.pid == os.getsid(0))
        write(tmp_path / "launch.json", json.dumps({**record, "boot_id": "other"}))
        assert read_system.live_leader(str(tmp_path), table) is None
        write(tmp_path / "launch.json", "{")
        assert read_system.live_leader(str(tmp_path), table) is None
    assert not read_system.read_port("127.0.0.1", port, str(tmp_path), "", table).listening


def test_packages(tmp_path: Path) -> None:
    assert read_packages.read_packages("/no/such/python", 5).error
    packages = read_packages.read_packages(sys.executable, 30)
    assert packages.sglang is None
    assert "pytest" in packages.versions
    assert read_packages.ask_flags("/no/such/python", 5) is None
    assert read_packages.ask_flags(sys.executable, 30) is None
    python = python_program(tmp_path / "python", "print('options:\\n  --model-path P\\n  --new-flag')")
    assert read_packages.ask_flags(python, 30) == frozenset({"--model-path", "--new-flag"})


def sharded(folder: Path) -> Path:
    models.write_target(folder)
    names = {f"t{number}": f"model-{number}.safetensors" for number in range(3)}
    write(folder / "model.safetensors.index.json", json.dumps({"weight_map": names}))
    for name, file in names.items():
        write(folder / file, models.safetensors({name: (2, 2)}))
    return folder


def test_weights(tmp_path: Path) -> None:
    def check(folder: Path | str) -> Any:
        return model_checks.check_weights("target-weights", str(folder))

    assert check("org/model").ok is None
    assert check(tmp_path / "none").ok is False
    assert check(tmp_path).ok is False
    folder = sharded(tmp_path / "m")
    assert check(folder).ok
    (folder / "model-2.safetensors").write_bytes((folder / "model-2.safetensors").read_bytes()[:-2])
    (folder / "model-1.safetensors").unlink()
    both = check(folder).detail
    assert "1 of 3 files are missing (model-1.safetensors)" in both
    assert "cut short" in both
    write(folder / "model.safetensors.index.json", "[]")
    assert "damaged" in check(folder).detail
    assert check(models.write_target(tmp_path / "bare")).ok is None
    assert check(models.write_draft(tmp_path / "d")).ok


def test_target_support(tmp_path: Path) -> None:
    target = str(models.write_target(tmp_path / "t"))
    assert model_checks.check_target_support(target, "0.5.10").ok
    assert "needs SGLang 0.5.10" in model_checks.check_target_support(target, "0.5.9").detail
    assert model_checks.check_target_support(target, None).ok is None
    write(tmp_path / "t/config.json", '{"architectures": ["Strange"]}')
    assert model_checks.check_target_support(target, "0.5.15").ok is False
    assert model_checks.check_target_support(target, "0.9.0").ok is None
    write(tmp_path / "t/config.json", "[]")
    assert model_checks.check_target_support(target, "0.5.15").ok is None


def test_draft(tmp_path: Path) -> None:
    target, draft = str(models.write_target(tmp_path / "t")), models.write_draft(tmp_path / "d")
    assert model_checks.check_draft_model(str(draft), target, "0.5.15", 8).ok
    assert model_checks.check_draft_model(str(draft), "/none", None, 8).ok is None
    assert model_checks.check_draft_model(str(draft), target, "0.5.15", 7).ok is False
    (draft / "model.safetensors").write_bytes(b"short")
    assert "fetch the draft again" in model_checks.check_draft_model(str(draft), target, None, 8).remedy
    mla = models.write_draft(tmp_path / "e", models.mla_draft_config())
    assert "0.5.12" in model_checks.check_draft_model(str(mla), target, "0.5.11", 8).detail


def test_context(tmp_path: Path) -> None:
    target, draft = str(models.write_target(tmp_path / "t")), models.write_draft(tmp_path / "d")

    def check(length: int | None = None, *, later: bool = False, **environment: str) -> Any:
        return model_checks.check_context(
            str(draft), target, "0.5.15", context_length=length, environment=environment, patched_later=later
        )

    clash = check()
    assert (clash.ok, clash.severity) == (False, "error")
    assert "262144 tokens, the draft gives 131072" in clash.detail
    assert "sglang_server_context_length: 131072" in clash.remedy
    assert check(later=True).severity == "warning"
    assert check(SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN="1").severity == "warning"
    assert check(131072).ok
    assert "more than the target's own" in check(999999).detail
    write(draft / "config.json", '{"max_position_embeddings": "many"}')
    assert check().ok is False
    write(draft / "config.json", "nonsense")
    assert check().ok is None
