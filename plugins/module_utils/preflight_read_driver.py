"""Read what the driver checks look at: nvidia-smi, /proc, /sys, the kernel log. Reads only; what is missing is None."""

from __future__ import annotations

import contextlib
import re
import shutil
import struct
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import FORMAT, lost_gpu
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_driver_checks import DriverFacts, PcieFacts
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_command import (
    CommandNotFoundError,
    CommandTimeoutError,
    run_bounded,
)

_FIELDS = ("index", "mig.mode.current", "driver_version", "ecc.errors.uncorrected.volatile.total")
_LIBRARY = "libnvidia-ml.so.1"
_LIBRARY_PLACES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib")
_MODULE = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)")
_ACS_CAPABILITY = 0x000D
_REDIRECTS = 0x04 | 0x08  # P2P request redirect, P2P completion redirect


def read_driver(nvidia_smi: str, timeout_s: float, root: str = "/") -> DriverFacts:
    """Versions and GPUs; `root` is a directory that looks like / (tests)."""
    module = _module_version(text_of(Path(root, "proc/driver/nvidia/version")))
    library = _library_version(root)
    if shutil.which(nvidia_smi) is None:
        return DriverFacts(module, library)
    code, text = _run([nvidia_smi, f"--query-gpu={','.join(_FIELDS)}", FORMAT], timeout_s)
    lost = lost_gpu(text)
    if code != 0 or lost:
        return DriverFacts(module, library, smi_error=" ".join(text.split())[:300] or f"status {code}", lost=lost)
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    gpus = [dict(zip(("index", "mig", "driver", "ecc"), row)) for row in rows]  # noqa: B905 (Python 3.9)
    # Drivers before 510 do not know this field, and then refuse the whole query.
    code, text = _run([nvidia_smi, "--query-gpu=compute_cap", FORMAT], timeout_s)
    if code == 0:
        for gpu, capability in zip(gpus, text.split()):  # noqa: B905
            gpu["capability"] = capability
    return DriverFacts(module, library, gpus=gpus)


def capability_of(facts: DriverFacts) -> Optional[Tuple[int, int]]:
    """Compute capability of the first GPU."""
    for gpu in facts.gpus:
        match = re.match(r"(\d+)\.(\d+)$", gpu.get("capability", ""))
        if match:
            return int(match.group(1)), int(match.group(2))
    return None


def read_kernel_log(timeout_s: float) -> Optional[str]:
    """The kernel's messages since the machine started; None where they may not be read."""
    for command in (["dmesg"], ["journalctl", "--dmesg", "--boot", "--no-pager", "--quiet"]):
        code, text = _run(command, timeout_s)
        if code == 0 and text.strip():
            return text
    return None


def read_pcie(root: str = "/") -> PcieFacts:
    """IOMMU and ACS on the way to each NVIDIA GPU."""
    iommu: Dict[str, str] = {}
    bridges: Dict[str, Optional[bool]] = {}
    for device in _gpus(root):
        kind = text_of(device / "iommu_group" / "type").strip()
        if kind:
            iommu[device.name] = kind
        for bridge in device.resolve().parents:
            if (bridge / "class").is_file():
                bridges[bridge.name] = _redirects(bridge / "config")
    readable = [state for state in bridges.values() if state is not None]
    hmm = text_of(Path(root, "sys/module/nvidia_uvm/parameters/uvm_disable_hmm")).strip()
    return PcieFacts(
        iommu=iommu,
        redirecting=sorted(name for name, state in bridges.items() if state) if readable else None,
        hmm={"N": True, "Y": False}.get(hmm),
    )


def _gpus(root: str) -> Iterator[Path]:
    folder = Path(root, "sys/bus/pci/devices")
    for device in sorted(folder.iterdir()) if folder.is_dir() else []:
        is_nvidia = text_of(device / "vendor").strip() == "0x10de"
        if is_nvidia and text_of(device / "class").startswith("0x03"):
            yield device


def _redirects(config: Path) -> Optional[bool]:
    """Whether ACS at this bridge redirects peer requests; None without root, who alone may read it all."""
    try:
        data = config.read_bytes()
    except OSError:
        return None
    if len(data) <= 0x100:
        return None
    offset, seen = 0x100, set()
    while 0x100 <= offset <= len(data) - 8 and offset not in seen:
        seen.add(offset)
        (header,) = struct.unpack_from("<I", data, offset)
        if header & 0xFFFF == _ACS_CAPABILITY:
            (control,) = struct.unpack_from("<H", data, offset + 6)
            return bool(control & _REDIRECTS)
        offset = header >> 20
    return False


def _module_version(text: str) -> Optional[str]:
    match = _MODULE.search(text)
    return match.group(1) if match else None


def _library_version(root: str) -> Optional[str]:
    for place in _LIBRARY_PLACES:
        link = Path(root, place, _LIBRARY)
        if link.exists():
            version = link.resolve().name.rpartition(".so.")[2]
            return version if version != "1" else None
    return None


def _run(command: List[str], timeout_s: float) -> Tuple[int, str]:
    try:
        result = run_bounded(command, timeout_s)
    except (CommandNotFoundError, CommandTimeoutError) as error:
        return -1, str(error)
    return result.returncode, result.stdout if result.returncode == 0 else result.words()


def text_of(path: Path) -> str:
    """What a file holds, empty when it cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
