"""What a sweep can be asked for. Apart from what makes it ready, so that a command line can say it without that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.plan import DEFAULT_MARGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.arms import Arm

DEFAULT_WORKLOAD = "mixed"
DEFAULT_BLOCKS = 5
SIMULATED_BLOCKS = 3
"""Enough for a first look at the simulated node in two minutes."""


@dataclass(frozen=True, slots=True)
class Options:
    """What ``sweep`` and ``plan`` were asked for."""

    arms: Sequence[Arm]
    blocks: int | None
    repeats: int
    seed: int
    workload: str
    output_tokens: int | None
    concurrency: Sequence[int]
    prompts_per_run: int | None
    max_running_requests: int | None
    cuda_graph_max_bs: int | None
    max_blocks: int | None = None
    budget_s: float | None = None
    confirm_blocks: int = 0
    margin: float = DEFAULT_MARGIN
    aa_noise: float | None = None
    aa: bool = False
    chat_format: str | None = None
