"""One look at a node: GPUs, who holds them, which launches live (pure: built from answers that were read before)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Collection, Dict, List, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_ownership import (
    ContainerOwnership,
    SessionOwnership,
    classify,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import ComputeApp, Gpu, normalise_bus_id

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_launches import Launch
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts

_NUMBERED = re.compile(r"^/dev/nvidia(\d+)$")


@dataclass(frozen=True)
class Holding:
    """What a process has of a GPU.

    ``gpu`` is the index (None: control device only, or a GPU that the table does not list, such as a MIG slice).
    ``used_mib`` is None where nvidia-smi does not say. ``context`` is False for a process that only keeps the device
    file open.
    """

    gpu: Optional[int]
    used_mib: Optional[int]
    context: bool


@dataclass(frozen=True)
class Holder:
    """A live process with GPU holdings and the class of its owner."""

    process: ProcessFacts
    owner_class: str
    holdings: Tuple[Holding, ...]

    def used_mib(self, gpu: int) -> int:
        """Known memory on one GPU, MiB."""
        return sum(holding.used_mib or 0 for holding in self.holdings if holding.gpu == gpu)

    def amount_unknown(self, gpu: int) -> bool:
        """Whether the process has a context on the GPU whose size nvidia-smi does not give."""
        return any(h.context and h.used_mib is None for h in self.holdings if h.gpu == gpu)


@dataclass(frozen=True)
class View:
    """A node at one moment. ``vanished`` are contexts that nvidia-smi lists for processes that no longer run."""

    gpus: Tuple[Gpu, ...]
    processes: Dict[int, ProcessFacts]
    holders: Tuple[Holder, ...]
    vanished: Tuple[ComputeApp, ...]
    launches: Tuple[Launch, ...]
    ownership: ContainerOwnership | SessionOwnership


@dataclass(frozen=True)
class Scope:
    """The GPUs looked at.

    ``explicit``: the caller named them. Then a process that only has the control device open is nobody's concern.
    """

    gpus: Tuple[Gpu, ...]
    explicit: bool


def scope_of(gpus: List[Gpu], uuids: Collection[str], visible_minors: Collection[int], minors: Dict[str, int]) -> Scope:
    """Choose the GPUs to look at: those named, else those the container has device nodes for, else all.

    Args:
        gpus: all GPUs of the node.
        uuids: named by the caller.
        visible_minors: device numbers N of the /dev/nvidiaN nodes in the container.
        minors: bus id -> device number, from the driver.

    Raises:
        KeyError: a named uuid is not a GPU of this node.
    """
    if uuids:
        known = {gpu.uuid for gpu in gpus}
        missing = sorted(set(uuids) - known)
        if missing:
            raise KeyError(", ".join(missing))
        return Scope(tuple(gpu for gpu in gpus if gpu.uuid in uuids), explicit=True)
    visible = tuple(gpu for gpu in gpus if minor_of(gpu, minors) in visible_minors)
    return Scope(visible or tuple(gpus), explicit=False)


def minor_of(gpu: Gpu, minors: Dict[str, int]) -> int:
    """Device number N of /dev/nvidiaN for a GPU; the index where the driver's list lacks it."""
    return minors.get(normalise_bus_id(gpu.bus_id), gpu.index)


def find_holders(
    scope: Scope,
    all_gpus: List[Gpu],
    apps: List[ComputeApp],
    *,
    processes: Dict[int, ProcessFacts],
    minors: Dict[str, int],
    ownership: ContainerOwnership | SessionOwnership,
) -> Tuple[Tuple[Holder, ...], Tuple[ComputeApp, ...]]:
    """Who holds the GPUs of the scope, and the contexts of processes that no longer run.

    Device files complete the list of contexts (a process that is stuck in teardown has none), but only for processes
    without any context: CUDA opens the files of GPUs it does not use.
    """
    index_by_uuid = {gpu.uuid: gpu.index for gpu in scope.gpus}
    outside = {gpu.uuid for gpu in all_gpus} - set(index_by_uuid)
    holdings: Dict[int, List[Holding]] = {}
    vanished = []
    for app in apps:
        if app.gpu_uuid in outside:
            continue
        process = processes.get(app.pid)
        if process is None or not process.live_thread:
            vanished.append(app)
            continue
        holdings.setdefault(app.pid, []).append(Holding(index_by_uuid.get(app.gpu_uuid), app.used_mib, context=True))
    with_context = {app.pid for app in apps}
    index_by_minor = {minor_of(gpu, minors): gpu.index for gpu in scope.gpus}
    for process in processes.values():
        if process.devices and process.live_thread and process.pid not in with_context:
            opened = _opened(process, index_by_minor, explicit=scope.explicit)
            if opened:
                holdings[process.pid] = opened
    holders = tuple(
        Holder(processes[pid], classify(processes[pid], ownership), tuple(holdings[pid])) for pid in sorted(holdings)
    )
    return holders, tuple(vanished)


def _opened(process: ProcessFacts, index_by_minor: Dict[int, int], *, explicit: bool) -> List[Holding]:
    numbered = [match for match in map(_NUMBERED.match, process.devices) if match]
    found = [int(match.group(1)) for match in numbered]
    inside = [Holding(index_by_minor[minor], None, context=False) for minor in found if minor in index_by_minor]
    if inside or explicit or found:
        return inside
    return [Holding(None, None, context=False)]
