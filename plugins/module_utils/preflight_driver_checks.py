"""Driver, GPU and PCIe checks (pure; what they look at is read by `preflight_read_driver`).

Sources: NVIDIA XID errors guide; PCI Express base specification (ACS capability 0x000D); NCCL user guide,
troubleshooting ("ACS", "IOMMU").
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_check import (
    WARNING,
    Check,
    failed,
    passed,
    unknown,
    warned,
)

SMI_RUNBOOK = "docs/runbooks/nvidia-smi-fails.md"
FOREIGN_RUNBOOK = "docs/runbooks/foreign-gpu-user.md"
LEAK_RUNBOOK = "docs/runbooks/gpu-memory-held-no-process.md"
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
# The GPU is gone or must be reset: off the bus, GSP gone, reset required.
_FATAL_XIDS = frozenset({62, 79, 119, 120, 140, 154})


@dataclass(frozen=True)
class DriverFacts:
    """What a machine (or a container) says of its NVIDIA driver; None and empty where it does not say.

    Attributes:
        module: version of the loaded kernel module.
        library: version of libnvidia-ml that programs get.
        smi_error: what nvidia-smi said when it failed.
        lost: the GPU that it says the driver has lost.
        gpus: one dictionary for each GPU: `mig`, `driver`, `ecc`, `capability` as text, as far as known.
    """

    module: Optional[str] = None
    library: Optional[str] = None
    smi_error: str = ""
    lost: str = ""
    gpus: List[Dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class PcieFacts:
    """IOMMU domain type by GPU, and the bridges above GPUs that redirect peer requests; None where not readable."""

    iommu: Dict[str, str] = field(default_factory=dict)
    redirecting: Optional[List[str]] = None
    hmm: Optional[bool] = None


def check_driver(facts: DriverFacts) -> Check:
    """Whether the driver answers, and its module and library are of one version."""
    name = "driver-version"
    if facts.lost:
        detail = f"the driver has lost {facts.lost}: {facts.smi_error}"
        remedy = "power-cycle the host in a window (journalctl -k -b | grep -E 'NVRM|Xid' says why); reset no GPU"
        return failed(name, detail, remedy, runbook=SMI_RUNBOOK)
    if facts.smi_error:
        return failed(name, f"nvidia-smi fails: {facts.smi_error}", "repair the driver first", runbook=SMI_RUNBOOK)
    if facts.module and facts.library and facts.module != facts.library:
        detail = f"kernel module {facts.module}, library {facts.library}"
        return failed(name, detail, "install the libraries of the host's driver version here (--no-kernel-module)")
    version = facts.module or (facts.gpus[0].get("driver") if facts.gpus else None)
    if version is None:
        return unknown(name, "no NVIDIA driver is seen here")
    return passed(name, f"driver {version}" + (", library the same" if facts.library else ""))


def check_gpu_count(facts: DriverFacts, wanted: int) -> Check:
    """Whether there are as many GPUs as the server wants."""
    name = "gpu-count"
    if not facts.gpus:
        return unknown(name, "nvidia-smi is not there or shows no GPU")
    if len(facts.gpus) < wanted:
        return failed(name, f"{len(facts.gpus)} GPUs, the server wants {wanted}", "lower sglang_server_tp_size")
    return passed(name, f"{len(facts.gpus)} GPUs, the server wants {wanted}")


def check_mig(facts: DriverFacts) -> Check:
    """Whether MIG is off: NCCL cannot join slices of GPUs."""
    name = "mig-off"
    if not facts.gpus:
        return unknown(name, "nvidia-smi is not there or shows no GPU")
    sliced = [gpu["index"] for gpu in facts.gpus if gpu.get("mig", "").lower() == "enabled"]
    if sliced:
        return failed(
            name, f"MIG is on for GPU {', '.join(sliced)}", "nvidia-smi -mig 0 on the host, while nothing runs"
        )
    return passed(name, "MIG is off or not supported")


def check_ecc(facts: DriverFacts) -> Check:
    """Whether memory errors that could not be corrected have been counted since the driver was loaded."""
    name = "gpu-memory-errors"
    counted = {gpu["index"]: int(gpu["ecc"]) for gpu in facts.gpus if gpu.get("ecc", "").isdigit()}
    if not counted:
        return unknown(name, "the driver counts no memory errors", WARNING)
    bad = [f"GPU {index}: {count}" for index, count in counted.items() if count]
    if bad:
        return warned(
            name, f"uncorrected memory errors: {', '.join(bad)}", "have that card looked at; measure without it"
        )
    return passed(name, "no uncorrected memory errors", WARNING)


def check_gpu_memory(
    accounts: List[Dict[str, int]], holders: List[str], *, idle_mib: int, fail_on_foreign: bool
) -> Check:
    """Whether the GPUs are free, apart from what is ours.

    Args:
        accounts: rows of `gpu_report.account_rows`.
        holders: others that hold GPUs, named.
        idle_mib: memory in MiB that a free GPU may have in use.
        fail_on_foreign: whether others' memory is an error.
    """
    name = "gpu-memory-free"
    foreign = [row["index"] for row in accounts if row["foreign_mib"] + row["system_mib"] > idle_mib]
    leaked = [row for row in accounts if row["unaccounted_mib"] > idle_mib]
    if foreign:
        make = failed if fail_on_foreign else warned
        detail = f"others hold GPU {', '.join(map(str, foreign))}: {'; '.join(holders)}"
        return make(name, detail, "ask their owners; nothing of theirs is ended", runbook=FOREIGN_RUNBOOK)
    if leaked:
        detail = ", ".join(f"GPU {row['index']}: {row['unaccounted_mib']} MiB" for row in leaked)
        return warned(name, f"memory that no process holds: {detail}", "follow the runbook", LEAK_RUNBOOK)
    ours = sum(row["ours_mib"] for row in accounts)
    detail = f"{len(accounts)} GPUs are free" if ours <= idle_mib else f"{ours} MiB are held by this server itself"
    return passed(name, detail)


def check_xid(kernel_log: Optional[str]) -> Check:
    """Whether the driver has reported faults since the machine started."""
    name = "kernel-log-xid"
    if kernel_log is None:
        return unknown(name, "the kernel log cannot be read here", WARNING)
    found: Dict[Tuple[str, int], int] = {}
    for bus, number in _XID.findall(kernel_log):
        found[bus, int(number)] = found.get((bus, int(number)), 0) + 1
    if not found:
        return passed(name, "no Xid in the kernel log", WARNING)
    order = sorted(found, key=lambda key: (key[1] not in _FATAL_XIDS, key))
    detail = ", ".join(f"Xid {number} on {bus} ({found[bus, number]}x)" for bus, number in order[:6])
    lost = any(number in _FATAL_XIDS for _, number in found)
    remedy = "the GPU may be lost until it is reset or the host is power cycled" if lost else "read the lines around it"
    return warned(name, detail, f"{remedy} (journalctl -k | grep Xid)")


def check_peer_path(facts: PcieFacts, gpu_count: int) -> Check:
    """Whether something on the PCIe path is known to make peer-to-peer copies hang or slow."""
    name = "pcie-peer-path"
    if not facts.iommu and facts.redirecting is None:
        return unknown(name, "no NVIDIA GPU is seen in /sys, or its bridges cannot be read", WARNING)
    translated = sorted(bus for bus, kind in facts.iommu.items() if kind.startswith("DMA"))
    hints = []
    if translated:
        hints.append(f"the IOMMU translates for {len(translated)} GPUs (first {translated[0]})")
    if facts.redirecting:
        hints.append(f"ACS redirects peer requests at {', '.join(facts.redirecting[:4])}")
    if not hints or gpu_count < 2:
        return passed(name, "no IOMMU translation and no ACS redirection above the GPUs", WARNING)
    if facts.hmm:
        hints.append("HMM is on in nvidia_uvm")
    remedy = "run controller doctor --allreduce; if it hangs, iommu=pt and ACS off, or NCCL_P2P_DISABLE=1"
    return warned(name, "; ".join(hints), remedy)
