"""Whose memory is on each GPU, and whether cleaning is done (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Collection, List, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_ownership import FOREIGN, OURS, SYSTEM

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import Gpu
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_view import Holder, View


@dataclass(frozen=True)
class Account:
    """The memory of one GPU by owner, MiB.

    ``amount_unknown``: a live process has a context whose size nvidia-smi does not give; then what is left over may
    be its.
    """

    gpu: Gpu
    ours_mib: int
    protected_mib: int
    foreign_mib: int
    system_mib: int
    amount_unknown: bool

    @property
    def unaccounted_mib(self) -> int:
        """Memory in use that no live process accounts for."""
        if self.amount_unknown:
            return 0
        known = self.ours_mib + self.protected_mib + self.foreign_mib + self.system_mib
        return max(0, self.gpu.used_mib - known)


def accounts_of(view: View, protected: Collection[int]) -> List[Account]:
    """One account for each GPU of the view; ``protected`` are pids of ours that may stay."""

    def total(gpu: Gpu, owner_class: str, *, stays: bool) -> int:
        return sum(
            holder.used_mib(gpu.index)
            for holder in view.holders
            if holder.owner_class == owner_class and (holder.process.pid in protected) == stays
        )

    return [
        Account(
            gpu=gpu,
            ours_mib=total(gpu, OURS, stays=False),
            protected_mib=total(gpu, OURS, stays=True),
            foreign_mib=total(gpu, FOREIGN, stays=False),
            system_mib=total(gpu, SYSTEM, stays=False),
            amount_unknown=any(holder.amount_unknown(gpu.index) for holder in view.holders),
        )
        for gpu in view.gpus
    ]


def remaining_ours(view: View, protected: Collection[int]) -> Tuple[Holder, ...]:
    """Our holders that should be gone."""
    return tuple(h for h in view.holders if h.owner_class == OURS and h.process.pid not in protected)


def is_settled(view: View, protected: Collection[int], idle_mib: int) -> bool:
    """Whether nothing of ours holds a GPU and no GPU has more than ``idle_mib`` that nobody accounts for."""
    if remaining_ours(view, protected):
        return False
    return all(account.unaccounted_mib <= idle_mib for account in accounts_of(view, protected))


def occupying(view: View, idle_mib: int) -> Tuple[Holder, ...]:
    """Holders that are not ours, on GPUs where such holders together have more than ``idle_mib``."""
    crowded = set()
    for account in accounts_of(view, ()):
        unknown_amount_matters = account.amount_unknown and account.gpu.used_mib > idle_mib
        if account.foreign_mib + account.system_mib > idle_mib or unknown_amount_matters:
            crowded.add(account.gpu.index)
    return tuple(
        holder
        for holder in view.holders
        if holder.owner_class != OURS and any(h.context and h.gpu in crowded for h in holder.holdings)
    )


def leaks(view: View, protected: Collection[int], idle_mib: int) -> List[Account]:
    """The GPUs with more than ``idle_mib`` that nobody accounts for."""
    return [account for account in accounts_of(view, protected) if account.unaccounted_mib > idle_mib]
