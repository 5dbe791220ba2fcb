"""What one look at the server says: speed, acceptance, requests. Pure: text and JSON in, figures out.

Metric names: SGLang 0.5.15, ``srt/observability/metrics_collector.py``. The gauges hold the last decode-log interval
(40 forwards by default), not an average.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from controller.watch.exposition import Sample, read_samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GENERATION_SPEED = "sglang:gen_throughput"
ACCEPTANCE_LENGTH = "sglang:spec_accept_length"
RUNNING = "sglang:num_running_reqs"
QUEUED = "sglang:num_queue_reqs"
WANTED = frozenset({GENERATION_SPEED, ACCEPTANCE_LENGTH, RUNNING, QUEUED})


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """One look. None: the server did not say.

    Attributes:
        tokens_per_s: generated tokens per second, all requests together, in unscaled time.
        acceptance_length: tokens per verify step, the bonus token included; None without speculation.
        running: requests in the running batch.
        queued: requests that wait.
    """

    tokens_per_s: float | None = None
    acceptance_length: float | None = None
    running: int | None = None
    queued: int | None = None

    @property
    def busy(self) -> bool:
        """Whether the figures are of a batch that runs now."""
        return bool(self.running) and bool(self.tokens_per_s)

    @property
    def cycle_s(self) -> float | None:
        """Seconds of one verify cycle (of one decode step without speculation): requests times L over tokens/s.

        Each request of the batch gets L tokens a cycle, so tokens/s = requests * L / cycle.
        """
        if not self.running or not self.tokens_per_s:
            return None
        return self.running * (self.acceptance_length or 1.0) / self.tokens_per_s

    def unscaled(self, time_scale: float) -> Reading:
        """Return the reading of a simulated server in unscaled time."""
        if self.tokens_per_s is None or time_scale == 1.0:
            return self
        return dataclasses.replace(self, tokens_per_s=self.tokens_per_s * time_scale)


@dataclasses.dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says about itself, asked once each time that it comes up."""

    model: str = ""
    version: str = ""
    algorithm: str | None = None
    steps: int | None = None
    max_running: int | None = None
    time_scale: float | None = None

    @property
    def simulated(self) -> bool:
        """Whether the server is a stand-in."""
        return self.time_scale is not None


def from_metrics(text: str) -> Reading:
    """Return the reading in an answer of ``/metrics``."""
    samples = read_samples(text, WANTED)
    return Reading(
        tokens_per_s=_sum(samples, GENERATION_SPEED),
        acceptance_length=_mean(samples, ACCEPTANCE_LENGTH),
        running=_whole(_sum(samples, RUNNING)),
        queued=_whole(_sum(samples, QUEUED)),
    )


def from_server_info(info: Mapping[str, Any]) -> Reading:
    """Return the reading in ``/server_info``: all there is without ``--enable-metrics``.

    The acceptance length there is an average since the start or since ``/flush_cache``. How many requests run is not
    in it.
    """
    states = [state for state in info.get("internal_states") or () if isinstance(state, dict)]
    speeds = [speed for state in states if (speed := _number(state.get("last_gen_throughput"))) is not None]
    lengths = [length for state in states if (length := _number(state.get("avg_spec_accept_length"))) is not None]
    return Reading(
        tokens_per_s=sum(speeds) if speeds else None,
        acceptance_length=sum(lengths) / len(lengths) if lengths else None,
    )


def facts_from(info: Mapping[str, Any]) -> ServerFacts:
    """Return what ``/server_info`` says about the settings."""
    simulated = info.get("simulated")
    return ServerFacts(
        model=str(info.get("served_model_name") or ""),
        version=str(info.get("version") or ""),
        algorithm=info.get("speculative_algorithm") or None,
        steps=_whole(_number(info.get("speculative_num_steps"))),
        max_running=_whole(_number(info.get("max_running_requests"))),
        time_scale=(_number(simulated.get("time_scale")) or 1.0) if isinstance(simulated, dict) else None,
    )


def _of_first_rank(samples: Iterable[Sample], name: str) -> list[float]:
    """Return the values of one name. Every rank of tensor parallelism may export the same figure; the first counts."""
    named = [sample for sample in samples if sample.name == name and math.isfinite(sample.value)]
    first = min(
        (sample.labels.get("tp_rank", "0") for sample in named), default="0", key=lambda rank: (len(rank), rank)
    )
    return [sample.value for sample in named if sample.labels.get("tp_rank", "0") == first]


def _sum(samples: Iterable[Sample], name: str) -> float | None:
    values = _of_first_rank(samples, name)
    return math.fsum(values) if values else None


def _mean(samples: Iterable[Sample], name: str) -> float | None:
    """Return the mean over the replicas that have decoded; a length of 0 means "none yet"."""
    values = [value for value in _of_first_rank(samples, name) if value > 0]
    return math.fsum(values) / len(values) if values else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
