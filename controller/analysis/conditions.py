"""Under which conditions a launch was measured: clocks, temperature, power, and who else used the GPUs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

THROTTLING = (
    "sw_power_cap",
    "hw_slowdown",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
)
"""Reasons for lower clocks that make figures worse; idle GPUs and clocks set by an operator are not among them."""
ALWAYS = frozenset(THROTTLING) - {"sw_power_cap"}
"""One sample of these is worth a flag. Many cards touch their power limit now and then without any harm."""
POWER_CAP_SHARE = 0.5
MEMORY_GROWTH_MIB = 1024.0
"""A serving SGLang has all its memory; more than this in addition belongs to somebody else."""


@dataclasses.dataclass(frozen=True, slots=True)
class Conditions:
    """What nvidia-smi said while a launch was measured, the worst over its GPUs.

    Attributes:
        samples: How often the GPUs were looked at.
        sm_mhz_lowest: Lowest SM clock of a GPU that was not idle.
        sm_mhz_median: Median of it over samples and GPUs.
        temperature_c: Highest temperature.
        power_w: Highest power.
        throttling: Share of samples with a reason for lower clocks, by reason.
        memory_growth_mib: Largest growth of the memory in use on one GPU while the server served.
        foreign: Processes of others on these GPUs right before or right after the launch.
    """

    samples: int = 0
    sm_mhz_lowest: float | None = None
    sm_mhz_median: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttling: Mapping[str, float] = dataclasses.field(default_factory=dict)
    memory_growth_mib: float | None = None
    foreign: tuple[str, ...] = ()

    @property
    def throttled(self) -> dict[str, float]:
        """The reasons that matter with the share of samples that show them."""
        return {
            name: share
            for name, share in self.throttling.items()
            if name in ALWAYS or (name in THROTTLING and share > POWER_CAP_SHARE)
        }


def conditions_from(gpu: Mapping[str, Any] | None, foreign: Iterable[Mapping[str, Any]] = ()) -> Conditions | None:
    """Read what the journal keeps of a launch; None when nothing was recorded.

    Args:
        gpu: Summary of the samples, as module ``launch_conditions`` returns it.
        foreign: Processes of others, as module ``gpu_reap`` returns them.
    """
    names = tuple(sorted({f"{process.get('name')} ({process.get('owner')})" for process in foreign}))
    if not gpu:
        return Conditions(foreign=names) if names else None
    return Conditions(
        samples=int(gpu.get("samples") or 0),
        sm_mhz_lowest=gpu.get("sm_mhz_lowest"),
        sm_mhz_median=gpu.get("sm_mhz_median"),
        temperature_c=gpu.get("temperature_c"),
        power_w=gpu.get("power_w"),
        throttling=dict(gpu.get("throttling") or {}),
        memory_growth_mib=gpu.get("memory_growth_mib"),
        foreign=names,
    )
