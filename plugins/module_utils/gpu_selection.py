"""Which processes go and which stay (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Dict, FrozenSet, Iterable, List, Set, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_launches import ALIVE
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_ownership import (
    ContainerOwnership,
    in_unit,
    is_system,
)

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_view import View
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts

MODE_ALL = "all"
MODE_ORPHANS = "orphans"


@dataclass(frozen=True)
class Selection:
    """What to signal (oldest first) and what is ours but stays because its launch is alive and managed."""

    victims: Tuple[ProcessFacts, ...]
    protected: Tuple[ProcessFacts, ...]


def select(view: View, mode: str, unit: str, *, unit_active: bool, untouchable: FrozenSet[int]) -> Selection:
    """Choose the processes to end.

    Seeds are our GPU holders and the members of recorded launches (a scheduler that has not allocated yet must go
    too, or it allocates right after). In a container the seeds' process groups and descendants join: SGLang's
    launcher, detokenizer and compile workers hold no GPU memory, share the schedulers' group, and would start new ones.

    Args:
        view: the node now.
        mode: ``MODE_ALL`` or ``MODE_ORPHANS`` (a live managed launch stays).
        unit: name of the server's systemd unit; "" where there is none.
        unit_active: whether systemd says that the unit runs or is about to.
        untouchable: pids that never go: the caller and its ancestors.
    """
    ours = {
        pid: process
        for pid, process in view.processes.items()
        if process.live_thread and pid not in untouchable and view.ownership.is_ours(process) and not is_system(process)
    }
    protected = _protected(view, ours, mode, unit, unit_active=unit_active)
    seeds = {holder.process.pid for holder in view.holders if holder.process.pid in ours}
    for launch in view.launches:
        seeds |= launch.members & set(ours)
    if mode == MODE_ALL:
        seeds |= {pid for pid, process in ours.items() if in_unit(process, unit)}
    seeds -= protected
    victims = seeds
    if isinstance(view.ownership, ContainerOwnership):
        victims = _whole_jobs(seeds, ours, view.ownership) - protected
    return Selection(oldest_first(ours[pid] for pid in victims), oldest_first(ours[pid] for pid in protected))


def oldest_first(processes: Iterable[ProcessFacts]) -> Tuple[ProcessFacts, ...]:
    """Parents before children: a child cannot be older than its parent."""
    return tuple(sorted(processes, key=lambda process: (process.start_ticks, process.pid)))


def launchers(processes: Iterable[ProcessFacts]) -> Tuple[ProcessFacts, ...]:
    """Those whose parent is not among them: a launcher of a whole tree, or each orphan for itself."""
    listed = list(processes)
    pids = {process.pid for process in listed}
    return oldest_first(process for process in listed if process.parent not in pids)


def _protected(view: View, ours: Dict[int, ProcessFacts], mode: str, unit: str, *, unit_active: bool) -> Set[int]:
    if mode == MODE_ALL:
        return set()
    protected: Set[int] = set()
    if unit_active:
        protected |= {pid for pid, process in ours.items() if in_unit(process, unit)}
    for launch in view.launches:
        if launch.status == ALIVE:
            protected |= launch.members & set(ours)
    return protected | _descendants(protected, ours)


def _whole_jobs(seeds: Set[int], ours: Dict[int, ProcessFacts], ownership: ContainerOwnership) -> Set[int]:
    # A container whose programs were started without job control shares one group with its init: that group is not a
    # job.
    init_group = ownership.init.group if ownership.init is not None else 0
    groups = {ours[pid].group for pid in seeds} - {0, init_group}
    members = seeds | {pid for pid, process in ours.items() if process.group in groups}
    return members | _descendants(members, ours)


def _descendants(pids: Set[int], ours: Dict[int, ProcessFacts]) -> Set[int]:
    children: Dict[int, List[int]] = {}
    for pid, process in ours.items():
        children.setdefault(process.parent, []).append(pid)
    found: Set[int] = set()
    waiting = list(pids)
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found and child not in pids:
                found.add(child)
                waiting.append(child)
    return found
