"""The two nvidia-smi queries that cleaning relies on, and the parsers of their answers (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import List, Optional

FORMAT = "--format=csv,noheader,nounits"
QUERY_GPUS = "--query-gpu=index,uuid,pci.bus_id,memory.used,memory.total"
QUERY_COMPUTE_APPS = "--query-compute-apps=gpu_uuid,pid,process_name,used_memory"

# "[N/A]", "[Not Supported]", "[Insufficient Permissions]", "N/A": a value that the driver does not give.
_UNKNOWN = re.compile(r"^\[.*\]$|^N/A$", re.IGNORECASE)
_NO_PROCESSES = "no running processes found"
# A GPU that the driver has lost, as nvidia-smi tells it: the whole query fails (status 15, older drivers 255), or its
# row has such words where numbers should be.
_LOST_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU *(?P<gpu>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d|\d+)?"
    r"[^\n]*?(?:GPU is lost|Unknown Error|GPU requires reset)",
    re.IGNORECASE,
)
_LOST_FIELD = re.compile(r"^\[?(?:GPU is lost|Unknown Error|GPU requires reset|ERR!)\]?$", re.IGNORECASE)
_BUS_ID = re.compile(r"^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d$")


class NvidiaSmiFormatError(ValueError):
    """A line that is not what the query should give."""


@dataclass(frozen=True)
class Gpu:
    """One GPU; memory in MiB, as NVML counts it (without the driver's own reserve)."""

    index: int
    uuid: str
    bus_id: str
    used_mib: int
    total_mib: int


@dataclass(frozen=True)
class ComputeApp:
    """One compute context: process ``pid`` on GPU ``gpu_uuid``; ``used_mib`` is None where the driver does not say."""

    gpu_uuid: str
    pid: int
    name: str
    used_mib: Optional[int]


def parse_gpus(text: str) -> List[Gpu]:
    """Parse the answer to ``QUERY_GPUS``.

    Raises:
        NvidiaSmiFormatError: a line has other fields, or memory is not a number (then cleaning could verify nothing).
    """
    return [_gpu(line) for line in _lines(text)]


def parse_compute_apps(text: str) -> List[ComputeApp]:
    """Parse the answer to ``QUERY_COMPUTE_APPS``. A process name may contain commas; the other fields never do.

    Raises:
        NvidiaSmiFormatError: a line has other fields.
    """
    return [_compute_app(line) for line in _lines(text) if line.lower() != _NO_PROCESSES]


def lost_gpu(text: str) -> str:
    """Name the GPU that an answer of nvidia-smi says the driver has lost ("GPU 0000:41:00.0"); "" when it names none.

    Sources: NVML API reference, nvmlReturn_t (NVML_ERROR_GPU_IS_LOST is 15, the exit status of nvidia-smi).
    """
    match = _LOST_HANDLE.search(text)
    if match:
        return f"GPU {match.group('gpu') or '(nvidia-smi does not say which)'}"
    for line in _lines(text):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) > 1 and any(_LOST_FIELD.match(field) for field in fields):
            bus_ids = [field for field in fields if _BUS_ID.match(field)]
            return f"GPU {' at '.join([fields[0].removeprefix('GPU-'), *bus_ids])}"
    return ""


def normalise_bus_id(bus_id: str) -> str:
    """A PCI bus id as /proc/driver/nvidia writes it: nvidia-smi's domain has eight digits, the kernel's four."""
    domain, colon, rest = bus_id.strip().lower().partition(":")
    if not colon or ":" not in rest:
        return bus_id.strip().lower()
    try:
        return f"{int(domain, 16):04x}:{rest}"
    except ValueError:
        return bus_id.strip().lower()


def _lines(text: str) -> List[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _gpu(line: str) -> Gpu:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 5:
        raise NvidiaSmiFormatError(f"expected index, uuid, bus id, memory used, memory total, got {line!r}")
    try:
        return Gpu(int(fields[0]), fields[1], fields[2], int(fields[3]), int(fields[4]))
    except ValueError as error:
        raise NvidiaSmiFormatError(f"index or memory is not a number in {line!r}") from error


def _compute_app(line: str) -> ComputeApp:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) < 4:
        raise NvidiaSmiFormatError(f"expected gpu uuid, pid, process name, memory used, got {line!r}")
    name = line.split(",", 2)[2].rpartition(",")[0].strip()
    try:
        used_mib = None if _UNKNOWN.match(fields[-1]) else int(fields[-1])
        return ComputeApp(fields[0], int(fields[1]), name, used_mib)
    except ValueError as error:
        raise NvidiaSmiFormatError(f"pid or memory is not a number in {line!r}") from error
