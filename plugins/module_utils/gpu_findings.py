"""What can stand in the way of free GPUs, as sentences with next steps (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, List, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_ownership import owner_label
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_runbooks import (
    FOREIGN_HOLDER,
    MEMORY_HELD_BY_NOBODY,
    PROCESS_IN_D_STATE,
    PROCESS_SURVIVES_KILL,
)

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_accounts import Account
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_view import Holder, View
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_termination import Survivor


def name_of(process: ProcessFacts) -> str:
    """``sglang::scheduler_TP0 (pid 4242, container 129)``."""
    return f"{process.label} (pid {process.pid}, {owner_label(process)})"


def describe_holder(holder: Holder) -> str:
    """A holder with what it has of each GPU."""
    parts = []
    for holding in holder.holdings:
        gpu = "a GPU that the table does not list" if holding.gpu is None else f"GPU {holding.gpu}"
        amount = "an amount that nvidia-smi does not give" if holding.used_mib is None else f"{holding.used_mib} MiB"
        if holding.context:
            parts.append(f"{gpu}: {amount}")
    return f"{name_of(holder.process)} holds {', '.join(parts)}"


def survivors_error(survivors: Sequence[Survivor]) -> GpuError:
    """Processes that outlived SIGKILL; those in state D first, because nothing else matters then."""
    stuck = [survivor for survivor in survivors if survivor.uninterruptible]
    if stuck:
        names = "; ".join(f"{name_of(s.process)} waits in {', '.join(s.wait_channels)}" for s in stuck)
        first = stuck[0].process.pid
        return GpuError(
            f"SIGKILL cannot end a process whose thread waits uninterruptibly in the kernel (state D): {names}.",
            [
                f"cat /proc/{first}/task/*/stack and journalctl -k | grep -i xid, to see what it waits for",
                "do not signal it again: SIGKILL is pending and takes effect when the wait ends",
                "follow the runbook before restarting the container or the node",
            ],
            PROCESS_IN_D_STATE,
        )
    names = "; ".join(f"{name_of(s.process)} in state {s.state}" for s in survivors)
    first = survivors[0].process.pid
    return GpuError(
        f"SIGKILL was sent and did not end {names}.",
        [
            f"cat /proc/{first}/status /proc/{first}/wchan",
            "run the cleaning again with a longer kill_wait_s on a loaded machine",
        ],
        PROCESS_SURVIVES_KILL,
    )


def respawn_error(processes: Iterable[ProcessFacts]) -> GpuError:
    """Something keeps starting the server."""
    names = "; ".join(name_of(process) for process in processes)
    return GpuError(
        f"New processes keep taking the GPUs after each round of cleaning: {names}.",
        ["stop what starts them (a systemd unit with Restart=, a supervisor, a shell loop)", "run the cleaning again"],
        PROCESS_SURVIVES_KILL,
    )


def foreign_error(holders: Sequence[Holder]) -> GpuError:
    """GPU memory of processes that are not ours."""
    names = "; ".join(describe_holder(holder) for holder in holders)
    return GpuError(
        f"GPU memory is held by processes that are not ours and were left alone: {names}.",
        [
            "ask their owner, or stop them where they belong (their own container, VM or unit)",
            "name the GPUs to look at with gpu_uuids when the others are theirs by agreement",
            "set fail_on_foreign to false to go on beside them",
        ],
        FOREIGN_HOLDER,
    )


def leak_error(accounts: Sequence[Account], view: View, hints: List[str]) -> GpuError:
    """Memory that no live process accounts for."""
    amounts = ", ".join(f"GPU {account.gpu.index}: {account.unaccounted_mib} MiB" for account in accounts)
    pids = sorted({app.pid for app in view.vanished})
    listed = f" nvidia-smi lists pids that do not run here: {', '.join(map(str, pids))}." if pids else ""
    seen = f" {' '.join(hints)}" if hints else ""
    return GpuError(
        f"GPU memory is in use and no live process accounts for it ({amounts}).{listed}{seen} No GPU was reset.",
        [
            "ps -eLo pid,tid,stat,wchan:32,comm | grep ' D' (a thread in state D keeps memory after its process died)",
            "nvidia-smi -q | grep -A2 'GPU Recovery Action' (what the driver itself advises)",
            "follow the runbook; a reset hits every user of the GPU, so it stays a decision of a person",
        ],
        MEMORY_HELD_BY_NOBODY,
    )
