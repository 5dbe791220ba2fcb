"""Plants lucky launches into a measured sweep, one at a time, and asks who is fooled: one launch a setting, or blocks.

    python3 -m tests.gpu.replay_lucky SWEEP [--factor 1.3]

The launches are those of the sweep's journal; nothing is launched. "One launch a setting" is the procedure of
``sglang.auto_benchmark`` (0.5.15): each setting is launched once and the highest output throughput wins. Each block of
the sweep is such a search. For every launch of every arm but the best ones (the highest median over all launches, and
what is within the sweep's margin of it), that launch is made faster by the factor, as a launch on a lucky day would be,
and both procedures decide again. The sweep is fooled when it then names the planted arm (UNDECIDED names nothing),
confirmed or not.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from controller.analysis.model import Launch, Pooled
from controller.analysis.sweep import analyse
from controller.sweep.results import launches, read_sweep

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What both said after one launch was made lucky."""

    cell: str
    arm: str
    single: str | None
    recommended: str | None
    status: str

    @property
    def single_fooled(self) -> bool:
        """Whether the lucky launch alone won."""
        return self.single == self.arm

    @property
    def blocks_fooled(self) -> bool:
        """Whether the sweep names the arm of the lucky launch."""
        return self.recommended == self.arm and self.status in {"CONFIRMED", "UNCONFIRMED", "BASELINE"}


def rate(launch: Launch) -> float:
    """Return the output throughput of one launch at the lowest concurrency, tokens/s, as the peer counts it."""
    lowest = min(run.concurrency for run in launch.runs)
    return Pooled.of(run for run in launch.runs if run.concurrency == lowest).output_tokens_per_s


def faster(launch: Launch, factor: float) -> Launch:
    """Return the launch as if everything in it had taken 1 / factor of its time."""
    runs = tuple(
        dataclasses.replace(run, decode_s=run.decode_s / factor, wall_s=run.wall_s / factor) for run in launch.runs
    )
    return dataclasses.replace(launch, runs=runs)


def single_launch_winner(measured: Sequence[Launch], block: int) -> str | None:
    """Return the setting that wins when the launches of one block are all there is."""
    some = [launch for launch in measured if launch.block == block and not launch.confirmation]
    return max(some, key=rate).arm if len(some) > 1 else None


def best_arms(measured: Sequence[Launch], margin: float) -> tuple[str, ...]:
    """Return the arm with the highest median over all launches and those less than the margin below it, best first."""
    medians = {
        arm: statistics.median(rate(one) for one in measured if one.arm == arm)
        for arm in {launch.arm for launch in measured}
    }
    least = max(medians.values()) / (1 + margin)
    return tuple(sorted((arm for arm in medians if medians[arm] >= least), key=lambda arm: (-medians[arm], arm)))


def plant(measured: Sequence[Launch], best: Sequence[str], factor: float) -> list[Outcome]:
    """Make each launch of each arm but the best lucky, one at a time, and let both decide."""
    found = []
    for lucky in measured:
        if lucky.arm in best or lucky.confirmation:
            continue
        changed = [faster(one, factor) if one is lucky else one for one in measured]
        choice = analyse(changed).levels[0].recommendation
        single = single_launch_winner(changed, lucky.block)
        found.append(Outcome(lucky.cell_id, lucky.arm, single, choice.arm, choice.status.value))
    return found


def main() -> int:
    """Print what both said of every planted launch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--factor", type=float, default=1.3)
    options = parser.parse_args()
    measured = [launch for launch in launches(*read_sweep(options.sweep)) if launch.failure is None and launch.runs]
    if not measured:
        print("no launch was measured")
        return 1
    simulated = " (simulated)" if any(launch.simulated for launch in measured) else ""
    blocks = sorted({launch.block for launch in measured if not launch.confirmation})
    as_measured = analyse(measured)
    best = best_arms(measured, as_measured.margin)
    print(f"{len(measured)} launches{simulated}; best by median: {', '.join(best)}")
    print("one launch a setting, as measured: " + ", ".join(str(single_launch_winner(measured, one)) for one in blocks))
    named_by_blocks = as_measured.levels[0].recommendation
    print(f"blocks, as measured: {named_by_blocks.status.value} {named_by_blocks.arm}")
    outcomes = plant(measured, best, options.factor)
    print(f"\none launch {options.factor:g} times as fast:")
    print(f"{'lucky launch':20} {'one launch a setting':22} {'blocks':30}")
    for one in outcomes:
        print(f"{one.cell:20} {one.single or '-':22} {one.status} {one.recommended}")
    fooled = sum(one.single_fooled for one in outcomes)
    named = sum(one.blocks_fooled for one in outcomes)
    confirmed = sum(one.blocks_fooled and one.status == "CONFIRMED" for one in outcomes)
    print(f"\nfooled by one of {len(outcomes)} lucky launches: one launch a setting {fooled} times,")
    print(f"blocks {named} times, {confirmed} of them confirmed on fresh launches")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
