"""Signatures of a container that cannot use the host's GPUs: device nodes, permissions, driver libraries."""

from __future__ import annotations

from typing import Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import (
    GENERAL,
    MEDIUM,
    Signature,
    signature,
)

_REFUSED = r"(?:[Oo]peration not permitted|[Pp]ermission denied|No such (?:file|device)|does not exist|EPERM|EACCES)"

SIGNATURES: Tuple[Signature, ...] = (
    signature(
        "lxc-device/node",
        rf"/dev/nvidia(?:-\w+|ctl|\d+)?\b.*{_REFUSED}|{_REFUSED}.*/dev/nvidia"
        r"|nvidia[-_]uvm\b.{0,60}(?:not (?:loaded|found)|missing)|devices\.allow.{0,60}[Oo]peration not permitted",
        'mknod("/dev/nvidia-uvm", S_IFCHR|0666, makedev(511, 0)) = -1 EPERM (Operation not permitted)',
        "canonical/lxd#5433; Proxmox VE pct: Device /dev/nvidia-uvm does not exist",
    ),
    signature(
        "lxc-device/management-library",
        r"Failed to initialize NVML|[Nn][Vv][Mm][Ll](?:Error\w*)?\b.{0,40}(?:Driver/library version mismatch"
        r"|Driver Not Loaded"
        r"|driver not loaded|Insufficient Permissions|insufficient permissions|Unknown Error)"
        r"|couldn't communicate with the NVIDIA driver",
        "Failed to initialize NVML: Driver/library version mismatch",
        "nvidia-smi, pynvml: the container's driver libraries are not those of the host's module, or its nodes are"
        " gone",
    ),
    signature(
        "lxc-device/unknown-error",
        r"CUDA unknown error - this may be due to|CUDA_ERROR_UNKNOWN|cudaErrorUnknown\b|Error 999: unknown error"
        r"|CUDA driver initialization failed|cuInit\W.{0,30}\b999\b|cudaGetDeviceCount(?:\(\))? returned (?:30|999"
        r"|100)\b",
        "UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment",
        "CUDA error 999 (30 up to CUDA 10): /dev/nvidia-uvm is missing or not allowed;"
        " community-scripts/ProxmoxVE#5740",
        confidence=MEDIUM,
    ),
    signature(
        "lxc-device/driver-library",
        r"lib(?:cuda|nvidia-ml)\.so[.\d]*: cannot open|Found no NVIDIA driver on your system"
        r"|NVML Shared Library Not Found|libnvidia-ml\.so\S* not found",
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
        "ld.so, torch/cuda/__init__.py: the driver's user-space part is not in the container",
    ),
    signature(
        "lxc-device/no-gpu",
        r"No CUDA GPUs are available|no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice"
        r"|No accelerator \(CUDA|^No devices were found|Can't initialize NVML",
        "RuntimeError: No CUDA GPUs are available",
        "CUDA runtime error 100; srt/utils get_device; nvidia-smi",
        strength=GENERAL,
        confidence=MEDIUM,
    ),
)
