"""Whether the verdicts tell the truth: sweeps drawn from models whose answer is known, analysed by the code in use.

The model is y = effect(arm) + block + launch + run on the scale of ln(tokens per second), split into acceptance length
and cycle time. The draws are made for all sweeps at once; each sweep then goes through ``analyse`` like a measured one.

    .venv/bin/python tests/bench/truth.py [--sweeps 4000] [--seed 1]
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from controller.analysis.model import Launch, Run
from controller.analysis.result import RecommendationStatus, Verdict
from controller.analysis.stopping import next_look, open_arms, planned_looks
from controller.analysis.sweep import analyse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.analysis.result import Interval, SweepAnalysis

BASE_RATE = 82.5  # tokens per second without speculation
LENGTH = 2.4
REQUESTS = 8
TOKENS = 256
CLAIMS = frozenset({Verdict.PAYS, Verdict.HURTS})
PAYS = frozenset({Verdict.PAYS})
WINNERS = frozenset({RecommendationStatus.CONFIRMED, RecommendationStatus.UNCONFIRMED})


@dataclasses.dataclass(frozen=True, slots=True)
class Truth:
    """A model. Standard deviations and effects on the log scale; ``effects`` has one true ln(speed-up) an arm."""

    effects: tuple[float, ...]
    blocks: int = 5
    fresh_blocks: int = 0
    runs: int = 3
    sd_block: float = 0.02
    sd_launch: float = 0.015
    sd_run: float = 0.005
    lucky_share: float = 0.0  # a share of the launches of every arm is faster ...
    lucky_gain: float = 0.0  # ... by this much
    baseline_sd_launch: float | None = None


def draw(truth: Truth, sweeps: int, seed: int) -> Iterator[list[Launch]]:
    """Yield sweeps drawn from a model: the baseline and one arm for each effect, in every block."""
    random = np.random.default_rng(seed)
    blocks, arms = truth.blocks + truth.fresh_blocks, len(truth.effects) + 1
    base_sd = truth.sd_launch if truth.baseline_sd_launch is None else truth.baseline_sd_launch
    spread = np.array([base_sd, *[truth.sd_launch] * (arms - 1)])
    block = random.normal(0, truth.sd_block, (sweeps, blocks, 1, 1))
    # Half of a launch's variance comes from acceptance, half from the cycle time; the baseline has the latter only.
    length = random.normal(0, 1, (sweeps, blocks, arms)) * spread / math.sqrt(2)
    cycle = random.normal(0, 1, (sweeps, blocks, arms)) * spread / math.sqrt(2)
    cycle[:, :, 0] *= math.sqrt(2)
    length[:, :, 0] = 0
    lucky = (random.random((sweeps, blocks, arms)) < truth.lucky_share) * truth.lucky_gain
    lucky[:, :, 0] = 0
    run = random.normal(0, truth.sd_run, (sweeps, blocks, arms, truth.runs))
    effect = np.array([0.0, *truth.effects])
    speed = math.log(BASE_RATE) + block + run + (effect + lucky + length - cycle)[..., None]
    orders = random.permuted(np.tile(np.arange(arms), (sweeps, blocks, 1)), axis=2)
    for sweep in range(sweeps):
        rates = np.exp(speed[sweep]).tolist()
        lengths = (LENGTH * np.exp(length[sweep] + lucky[sweep])).tolist()
        yield [
            _launch(place, arm, int(orders[sweep, place, arm]), rates[place][arm], lengths[place][arm], truth)
            for place in range(blocks)
            for arm in range(arms)
        ]


def _launch(block: int, arm: int, order: int, rates: list[float], length: float, truth: Truth) -> Launch:
    """Return one launch with the given speed in each run."""
    tokens = REQUESTS * (TOKENS - 1)
    runs = tuple(
        Run(
            index=index,
            concurrency=1,
            requests=REQUESTS,
            completion_tokens=REQUESTS * TOKENS,
            decode_s=tokens / rate,
            wall_s=tokens / rate + 1,
            verify_steps=round(tokens / length) if arm else None,
        )
        for index, rate in enumerate(rates)
    )
    name = f"steps={arm}" if arm else "baseline"
    return Launch(
        cell_id=f"{block}-{name}",
        block=block,
        order=block * (len(truth.effects) + 1) + order,
        arm=name,
        steps=arm or None,
        runs=runs,
        simulated=True,
        confirmation=block >= truth.blocks,
    )


def analysed(truth: Truth, sweeps: int, seed: int) -> Iterator[SweepAnalysis]:
    """Yield the analysis of each sweep drawn."""
    for launches in draw(truth, sweeps, seed):
        yield analyse(launches)


def claim_rate(truth: Truth, sweeps: int, seed: int, *, verdicts: frozenset[Verdict] = CLAIMS) -> float:
    """Return the share of sweeps in which any arm gets one of ``verdicts``."""
    hits = sum(
        any(arm.verdict in verdicts for arm in analysis.levels[0].arms) for analysis in analysed(truth, sweeps, seed)
    )
    return hits / sweeps


def grown(truth: Truth, looks: tuple[int, ...], sweeps: int, seed: int, *, honest: bool = True) -> Iterator[Outcome]:
    """Yield sweeps that add blocks for their undecided arms, as the stop rule of ``sweep`` does.

    ``honest=False`` gives each look the whole error rate, to show what that costs.
    """
    most = dataclasses.replace(truth, blocks=looks[-1])
    for launches in draw(most, sweeps, seed):
        limits = dict.fromkeys({launch.arm for launch in launches}, looks[0])
        at: int | None = looks[0]
        while at is not None:
            seen = [launch for launch in launches if launch.block < limits[launch.arm]]
            analysis = analyse(seen, looks=len(looks) if honest else 1)
            undecided, blocks = open_arms(analysis), at
            at = next_look(looks, at) if undecided else None
            if at is not None:
                limits |= dict.fromkeys(("baseline", *undecided), at)
        yield Outcome(analysis, blocks)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How a sweep with the stop rule ended, and after how many blocks."""

    analysis: SweepAnalysis
    blocks: int

    def claims(self, verdicts: frozenset[Verdict]) -> bool:
        """Return whether any arm got one of ``verdicts``."""
        return any(arm.verdict in verdicts for arm in self.analysis.levels[0].arms)


def stop_rule_rate(
    truth: Truth, looks: tuple[int, ...], sweeps: int, seed: int, verdicts: frozenset[Verdict], *, honest: bool = True
) -> tuple[float, float]:
    """Return the share of sweeps with a claim, and how many blocks they took on average."""
    hits = blocks = 0
    for outcome in grown(truth, looks, sweeps, seed, honest=honest):
        hits += outcome.claims(verdicts)
        blocks += outcome.blocks
    return hits / sweeps, blocks / sweeps


def coverage(truth: Truth, sweeps: int, seed: int) -> dict[str, float]:
    """Return how often each 95 % interval of the first arm holds the true value."""
    speedup = math.exp(truth.effects[0])
    known = {
        "tokens_per_s": BASE_RATE * speedup,
        "speedup": speedup,
        "acceptance_length": LENGTH,
        "cycle_s": LENGTH / (BASE_RATE * speedup),
        "break_even_length": LENGTH / speedup,
    }
    hits = dict.fromkeys(known, 0)
    for analysis in analysed(truth, sweeps, seed):
        arm = analysis.levels[0].arms[1]
        for name, value in known.items():
            hits[name] += holds(getattr(arm, name), value)
    return {name: count / sweeps for name, count in hits.items()}


def holds(interval: Interval | None, value: float) -> bool:
    """Return whether an interval holds a value."""
    return (
        interval is not None
        and interval.low is not None
        and interval.high is not None
        and interval.low <= value <= interval.high
    )


def reproduction(truth: Truth, sweeps: int, seed: int) -> tuple[float, float]:
    """Return the share of winners that were NOT REPRODUCED, and the share of sweeps with a winner."""
    statuses = [analysis.levels[0].recommendation.status for analysis in analysed(truth, sweeps, seed)]
    missed = sum(status is RecommendationStatus.NOT_REPRODUCED for status in statuses)
    won = missed + sum(status in WINNERS for status in statuses)
    return (missed / won if won else 0.0), won / sweeps


STORY = Truth(
    effects=(math.log(60 / 82.5),),
    sd_block=0.004,
    sd_launch=0.008,
    lucky_share=0.2,
    lucky_gain=math.log(94 / 60),
    baseline_sd_launch=0.004,
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sweeps, seed, margin = options.sweeps, options.seed, math.log(1.02)
    start = time.perf_counter()
    print(f"{sweeps} simulated sweeps a line, seed {seed}; sd: block 2 %, launch 1.5 %, run 0.5 %; margin 2 %")
    print("\nFalse claims (any arm of the sweep), must be at most 5 %")
    for name, truth, verdicts in (
        ("3 arms equal to the baseline: PAYS or HURTS", Truth((0.0, 0.0, 0.0)), CLAIMS),
        ("1 arm exactly at +2 %: PAYS", Truth((margin,)), PAYS),
        ("3 arms exactly at +2 %: PAYS", Truth((margin,) * 3), PAYS),
        ("3 arms exactly at -2 %: HURTS", Truth((-margin,) * 3), frozenset({Verdict.HURTS})),
        ("1 arm exactly at +2 %: EQUAL, quiet launches (0.2 %)", Truth((margin,), sd_launch=0.002, sd_run=0.001),
         frozenset({Verdict.EQUAL})),
        ("lucky launches, 94 in one of five, else 60, against 82.5: PAYS", STORY, PAYS),
        ("the same, 1 block", dataclasses.replace(STORY, blocks=1), CLAIMS | {Verdict.EQUAL}),
        ("the same, 3 blocks: PAYS", dataclasses.replace(STORY, blocks=3), PAYS),
    ):  # fmt: skip
        print(f"  {name:66} {claim_rate(truth, sweeps, seed, verdicts=verdicts):7.2%}")
    looks = planned_looks(5, 15)
    places = ", ".join(map(str, looks))
    print(f"\nFalse claims with the stop rule (looks at {places} blocks), must be at most 5 %; mean blocks")
    for name, truth, verdicts in (
        ("3 arms equal to the baseline: PAYS or HURTS", Truth((0.0, 0.0, 0.0)), CLAIMS),
        ("1 arm exactly at +2 %: PAYS", Truth((margin,)), PAYS),
        ("3 arms exactly at +2 %: PAYS", Truth((margin,) * 3), PAYS),
        ("3 arms exactly at -2 %: HURTS", Truth((-margin,) * 3), frozenset({Verdict.HURTS})),
        ("lucky launches, as above: PAYS", STORY, PAYS),
    ):
        rate, blocks = stop_rule_rate(truth, looks, sweeps, seed, verdicts)
        print(f"  {name:66} {rate:7.2%} {blocks:6.1f}")
    rate, blocks = stop_rule_rate(Truth((margin,)), tuple(range(5, 16)), sweeps, seed, PAYS, honest=False)
    print(f"  {'not the rule: a look after every block, each at 95 %, 1 arm at +2 %':66} {rate:7.2%} {blocks:6.1f}")
    print("\nCoverage of 95 % intervals, must be 93 to 97 %")
    for blocks in (3, 5, 10):
        found = coverage(Truth((0.10,), blocks=blocks), sweeps, seed)
        print(f"  {blocks:2} blocks: " + ", ".join(f"{name} {share:.1%}" for name, share in found.items()))
    print("\nWinners that are right (+10 %) but NOT REPRODUCED on fresh launches, must be at most 5 %")
    for fresh in (1, 2, 3):
        missed, won = reproduction(Truth((0.10,), blocks=6, fresh_blocks=fresh), sweeps, seed)
        print(f"  {fresh} fresh: {missed:.2%} (of {won:.0%} of the sweeps that have a winner)")
    print("\nPower: share of sweeps with PAYS for one arm, by true gain and blocks")
    print("  gain   " + "".join(f"{blocks:>8}" for blocks in (3, 4, 5, 6, 8, 10)))
    for gain in (0.03, 0.05, 0.07, 0.10, 0.15):
        shares = [
            claim_rate(Truth((math.log1p(gain),), blocks=blocks), sweeps // 4, seed, verdicts=PAYS)
            for blocks in (3, 4, 5, 6, 8, 10)
        ]
        print(f"  {gain:+5.0%}  " + "".join(f"{share:8.0%}" for share in shares))
    print(f"\nPower with the stop rule (looks at {places} blocks): share with PAYS, mean blocks")
    for gain in (0.03, 0.05, 0.07, 0.10):
        rate, blocks = stop_rule_rate(Truth((math.log1p(gain),)), looks, sweeps // 4, seed, PAYS)
        print(f"  {gain:+5.0%} {rate:8.0%} {blocks:6.1f}")
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
