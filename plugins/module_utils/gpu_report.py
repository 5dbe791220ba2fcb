"""Results of the GPU modules as plain dictionaries, and the holder table for --diff (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Collection, Dict, Iterable, List, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_accounts import Account, accounts_of
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_ownership import owner_label

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_launches import Launch
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import Gpu
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_view import Holder, View
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_termination import Survivor


def gpu_rows(gpus: Iterable[Gpu]) -> List[Dict[str, Any]]:
    """``[{index, uuid, used_mib, total_mib}]``."""
    return [{"index": g.index, "uuid": g.uuid, "used_mib": g.used_mib, "total_mib": g.total_mib} for g in gpus]


def holder_rows(holders: Iterable[Holder]) -> List[Dict[str, Any]]:
    """One row for each process and GPU: ``{pid, name, gpu, used_mib, context, owner, class}``."""
    return [
        {
            "pid": holder.process.pid,
            "name": holder.process.label,
            "gpu": holding.gpu,
            "used_mib": holding.used_mib,
            "context": holding.context,
            "owner": owner_label(holder.process),
            "class": holder.owner_class,
        }
        for holder in holders
        for holding in holder.holdings
    ]


def process_rows(processes: Iterable[ProcessFacts], view: View) -> List[Dict[str, Any]]:
    """Rows as ``holder_rows`` gives them, also for processes without holdings (``gpu`` and ``used_mib`` are null)."""
    held = {holder.process.pid: holder for holder in view.holders}
    rows: List[Dict[str, Any]] = []
    for process in processes:
        if process.pid in held:
            rows += holder_rows([held[process.pid]])
        else:
            rows.append(
                {
                    "pid": process.pid,
                    "name": process.label,
                    "gpu": None,
                    "used_mib": None,
                    "context": False,
                    "owner": owner_label(process),
                    "class": "ours",
                }
            )
    return rows


def leak_rows(accounts: Iterable[Account]) -> List[Dict[str, Any]]:
    """``[{index, uuid, unaccounted_mib}]``."""
    return [
        {"index": account.gpu.index, "uuid": account.gpu.uuid, "unaccounted_mib": account.unaccounted_mib}
        for account in accounts
    ]


def account_rows(view: View) -> List[Dict[str, Any]]:
    """``[{index, uuid, used_mib, total_mib, ours_mib, foreign_mib, system_mib, unaccounted_mib}]``."""
    return [
        {
            "index": account.gpu.index,
            "uuid": account.gpu.uuid,
            "used_mib": account.gpu.used_mib,
            "total_mib": account.gpu.total_mib,
            "ours_mib": account.ours_mib,
            "foreign_mib": account.foreign_mib,
            "system_mib": account.system_mib,
            "unaccounted_mib": account.unaccounted_mib,
        }
        for account in accounts_of(view, ())
    ]


def launch_rows(launches: Iterable[Launch]) -> List[Dict[str, Any]]:
    """``[{launch_id, pid, status, members}]``."""
    return [
        {
            "launch_id": launch.record.launch_id,
            "pid": launch.record.pid,
            "status": launch.status,
            "members": sorted(launch.members),
        }
        for launch in launches
    ]


def survivor_rows(survivors: Iterable[Survivor]) -> List[Dict[str, Any]]:
    """``[{pid, name, state, wait_channels}]``."""
    return [
        {"pid": s.process.pid, "name": s.process.label, "state": s.state, "wait_channels": list(s.wait_channels)}
        for s in survivors
    ]


def holder_table(view: View, without: Collection[int] = ()) -> str:
    """The view as text, one line for each GPU and holder; ``without`` leaves out pids (what a check run predicts)."""
    lines = []
    for gpu in view.gpus:
        rows = [h for h in view.holders if any(holding.gpu == gpu.index for holding in h.holdings)]
        gone = sum(holder.used_mib(gpu.index) for holder in rows if holder.process.pid in without)
        lines.append(f"GPU {gpu.index}: {max(0, gpu.used_mib - gone)} of {gpu.total_mib} MiB in use")
        lines += [_holder_line(holder, gpu) for holder in rows if holder.process.pid not in without]
    return "".join(f"{line}\n" for line in lines)


def success_message(result: Dict[str, Any], *, check_mode: bool) -> str:
    """One sentence about a cleaning that did not fail."""
    killed, free = len(result["killed"]), len(result["after"])
    if not result["changed"]:
        stays = " The live launch was left alone." if result["protected"] else ""
        return f"Nothing to clean on {free} GPUs.{stays}"
    verb = "would be ended" if check_mode else "ended"
    return f"{killed} process{'' if killed == 1 else 'es'} {verb} on {free} GPUs."


def processes_line(processes: Sequence[ProcessFacts]) -> str:
    """``2 processes`` or ``1 process``."""
    return f"{len(processes)} process" + ("" if len(processes) == 1 else "es")


def _holder_line(holder: Holder, gpu: Gpu) -> str:
    context = any(holding.context for holding in holder.holdings if holding.gpu == gpu.index)
    amount = f"{holder.used_mib(gpu.index)} MiB" if context else "device open"
    if holder.amount_unknown(gpu.index):
        amount = "amount unknown"
    process = holder.process
    return f"  {process.label} pid {process.pid} [{owner_label(process)}, {holder.owner_class}] {amount}"
