"""Where GPU memory that nobody accounts for may come from. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Collection, List

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_findings import name_of

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_view import View
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable


def leak_hints(table: ProcessTable, view: View, gpus: Collection[int]) -> List[str]:
    """Sentences about processes that may be behind the memory: open or mapped devices, our threads in state D.

    Mappings are read only here: /proc/PID/maps of a big process costs more than everything else that cleaning reads.
    """
    holders = {holder.process.pid for holder in view.holders}
    opened = [
        name_of(holder.process)
        for holder in view.holders
        if any(not holding.context and (holding.gpu in gpus or holding.gpu is None) for holding in holder.holdings)
    ]
    mapped = [
        name_of(table.with_details(process))
        for pid, process in view.processes.items()
        if pid not in holders and table.mapped_devices(pid)
    ]
    stuck = [
        f"{name_of(process)} in {thread.wait_channel or 'unknown'}"
        for process in view.processes.values()
        if view.ownership.is_ours(process)
        for thread in table.threads(process.pid)
        if thread.state == "D"
    ]
    hints = []
    if stuck:
        hints.append(f"Threads of ours in state D: {'; '.join(stuck)}.")
    if mapped:
        hints.append(f"Processes that map a GPU device: {'; '.join(mapped)}.")
    if opened:
        hints.append(f"Processes that keep a GPU device open without a compute context: {'; '.join(opened)}.")
    return hints
