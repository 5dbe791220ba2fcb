"""The host as a factor: how much hosts differ, and whether the speed-up is the same on all of them.

Arms are compared within a block and a block is done by one host, so the level of a host cancels in every difference.
What does not cancel is a speed-up that differs between hosts; one-way analysis of variance over blocks in hosts looks
for it. References: Searle, Casella & McCulloch, Variance Components, chapter 3 (unequal numbers of blocks); Fisher
1925, Statistical Methods for Research Workers.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from controller.analysis.intervals import exponential, t_quantile
from controller.analysis.result import Flag, HostEffect, HostLevel, HostSplit, Interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from controller.analysis.points import Point

DISAGREE_P = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class OneWay:
    """Values grouped by host.

    Attributes:
        within: Variance of the values of one host.
        between: Variance of the hosts' own levels, never negative.
        degrees: Of ``within``.
        p_value: Of the hosts having one level.
    """

    within: float
    between: float
    degrees: int
    p_value: float


def one_way(groups: Sequence[Sequence[float]]) -> OneWay | None:
    """Return the analysis of variance; None with fewer than two hosts or no host with two blocks."""
    count, hosts = sum(map(len, groups)), len(groups)
    degrees = count - hosts
    if hosts < 2 or degrees < 1:
        return None
    means = [math.fsum(group) / len(group) for group in groups]
    mean = math.fsum(value for group in groups for value in group) / count
    inside = math.fsum((value - own) ** 2 for group, own in zip(groups, means, strict=True) for value in group)
    across = math.fsum(len(group) * (own - mean) ** 2 for group, own in zip(groups, means, strict=True))
    within, between = inside / degrees, across / (hosts - 1)
    blocks_of_a_host = (count - math.fsum(len(group) ** 2 for group in groups) / count) / (hosts - 1)
    return OneWay(
        within,
        max(0.0, (between - within) / blocks_of_a_host),
        degrees,
        _f_tail(between / within, hosts - 1, degrees) if within > 0 else float(between == 0),
    )


def split_hosts(
    points_by_arm: Mapping[str, Sequence[Point]], baseline: str | None, confidence: float
) -> HostSplit | None:
    """Return what hosts have to do with the figures of one concurrency; None when one host measured all of them."""
    everything = [point for points in points_by_arm.values() for point in points]
    if len({point.launch.host for point in everything}) < 2:
        return None
    levels = _block_levels(points_by_arm, lambda point: point.ln_speed)
    split = one_way(list(levels.values()))
    mean = math.fsum(math.fsum(values) / len(values) for values in levels.values()) / len(levels)
    return HostSplit(
        sd_host=math.sqrt(split.between) if split else None,
        sd_block=math.sqrt(split.within) if split else None,
        p_value=split.p_value if split else None,
        hosts=tuple(
            HostLevel(
                host=host,
                blocks=len(values),
                launches=sum(1 for point in everything if point.launch.host == host),
                level=_own_interval(values, mean, split, confidence),
            )
            for host, values in levels.items()
        ),
        arms=tuple(
            _effect(arm, points, points_by_arm[baseline], confidence)
            for arm, points in points_by_arm.items()
            if baseline is not None and arm != baseline and points
        ),
    )


def at_one_level(points_by_arm: Mapping[str, Sequence[Point]]) -> Mapping[str, Sequence[Point]]:
    """Return the points as if all hosts were equally fast, for looks at drift and outliers; unchanged with one host."""
    hosts = {point.launch.host for points in points_by_arm.values() for point in points}
    if len(hosts) < 2:
        return points_by_arm
    speed = _shifts(points_by_arm, lambda point: point.ln_speed)
    cycle = _shifts(points_by_arm, lambda point: point.ln_cycle)
    return {
        arm: [
            dataclasses.replace(
                point,
                ln_speed=point.ln_speed - speed[point.launch.host],
                ln_cycle=point.ln_cycle - cycle[point.launch.host],
            )
            for point in points
        ]
        for arm, points in points_by_arm.items()
    }


def host_flags(split: HostSplit | None, concurrency: int) -> Iterator[Flag]:
    """Yield the arms whose speed-up differs between hosts; several arms share the error rate."""
    for arm in split.arms if split else ():
        if split and arm.p_value is not None and arm.p_value * len(split.arms) < DISAGREE_P:
            yield Flag(
                "hosts_disagree",
                arm=arm.arm,
                concurrency=concurrency,
                values={
                    "p": arm.p_value,
                    "by_host": ", ".join(f"{host} {speedup.value - 1:+.1%}" for host, speedup in arm.by_host),
                },
            )


def _block_levels(
    points_by_arm: Mapping[str, Sequence[Point]], value: Callable[[Point], float]
) -> dict[str, list[float]]:
    """Return {host: level of each of its blocks}: the mean over arms of what is above the arm's own mean."""
    above: dict[str, dict[int, list[float]]] = {}
    for points in points_by_arm.values():
        if not points:
            continue
        mean = math.fsum(map(value, points)) / len(points)
        for point in points:
            blocks = above.setdefault(point.launch.host, {})
            blocks.setdefault(point.launch.block, []).append(value(point) - mean)
    return {
        host: [math.fsum(values) / len(values) for _, values in sorted(blocks.items())]
        for host, blocks in sorted(above.items())
    }


def _shifts(points_by_arm: Mapping[str, Sequence[Point]], value: Callable[[Point], float]) -> dict[str, float]:
    levels = _block_levels(points_by_arm, value)
    return {host: math.fsum(values) / len(values) for host, values in levels.items()}


def _effect(arm: str, points: Sequence[Point], baseline: Sequence[Point], confidence: float) -> HostEffect:
    """Return the speed-up of an arm on each host, and the p of its being the same on all."""
    base = _by_block(baseline)
    gaps: dict[str, list[float]] = {}
    for block, (host, speed) in sorted(_by_block(points).items()):
        if block in base:
            gaps.setdefault(host, []).append(speed - base[block][1])
    split = one_way(list(gaps.values()))
    return HostEffect(
        arm=arm,
        by_host=tuple((host, _own_interval(values, 0.0, split, confidence)) for host, values in sorted(gaps.items())),
        p_value=split.p_value if split else None,
    )


def _by_block(points: Iterable[Point]) -> dict[int, tuple[str, float]]:
    return {point.launch.block: (point.launch.host, point.ln_speed) for point in points}


def _own_interval(values: Sequence[float], origin: float, split: OneWay | None, confidence: float) -> Interval:
    """Return a host's mean as a ratio; its interval borrows the variance within hosts from all of them."""
    mean = math.fsum(values) / len(values) - origin
    if split is None:
        return exponential(Interval(mean))
    half = t_quantile(confidence, split.degrees) * math.sqrt(split.within / len(values))
    return exponential(Interval(mean, mean - half, mean + half))


def _f_tail(value: float, top: int, bottom: int) -> float:
    """Return P(F > value)."""
    from scipy.special import fdtrc  # noqa: PLC0415 - see intervals.t_quantile

    return float(fdtrc(top, bottom, value))
