"""One launch at one concurrency, on the log scale: what every comparison works with."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from controller.analysis.model import Pooled, is_timed
from controller.analysis.result import LaunchPoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.analysis.model import Launch, Run


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A launch's pooled figures. ``ln_length`` is 0 without speculation: always ln_speed = ln_length - ln_cycle."""

    launch: Launch
    runs: tuple[Run, ...]
    pooled: Pooled
    ln_speed: float
    ln_length: float
    ln_cycle: float

    def shown(self) -> LaunchPoint:
        """Return the point as it is reported."""
        warmup = [run for run in self.launch.warmup if run.concurrency == self.runs[0].concurrency]
        warm = Pooled.of(warmup)
        return LaunchPoint(
            cell_id=self.launch.cell_id,
            block=self.launch.block,
            order=self.launch.order,
            confirmation=self.launch.confirmation,
            tokens_per_s=self.pooled.tokens_per_s,
            output_tokens_per_s=self.pooled.output_tokens_per_s,
            acceptance_length=self.pooled.acceptance_length,
            cycle_s=self.pooled.cycle_s,
            warmup_requests=sum(run.requests + run.failed_requests for run in warmup),
            warmup_tokens_per_s=warm.tokens_per_s if warm.decode_s > 0 else None,
            conditions=self.launch.conditions,
            host=self.launch.host,
        )

    def speed_by_run(self) -> dict[int, float]:
        """Return {run index: ln(tokens per second)}."""
        return {run.index: math.log(Pooled.of((run,)).tokens_per_s) for run in self.runs}

    def cycle_by_run(self) -> list[float]:
        """Return the cycle time of each run in order: it hardly depends on the prompts, as speed does."""
        return [Pooled.of((run,)).cycle_s for run in sorted(self.runs, key=lambda run: run.index)]


def points_at(launches: Iterable[Launch], concurrency: int) -> list[Point]:
    """Return the points of one level; launches that failed or measured nothing there have none."""
    points = []
    for launch in launches:
        if launch.failure is not None:
            continue
        runs = tuple(run for run in launch.runs if run.concurrency == concurrency and is_timed(run))
        if not runs:
            continue
        pooled = Pooled.of(runs)
        length = pooled.acceptance_length
        points.append(
            Point(
                launch=launch,
                runs=runs,
                pooled=pooled,
                ln_speed=math.log(pooled.tokens_per_s),
                ln_length=0.0 if length is None else math.log(length),
                ln_cycle=math.log(pooled.cycle_s),
            )
        )
    return points
