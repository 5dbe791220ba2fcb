"""How fast the simulated server is: a pure model of decode time, acceptance and noise.

Notation as in the reports: T1 is the time per token without speculation, C(k) the time of one draft-verify cycle with k
steps, L the acceptance length (tokens per cycle). A server with speculation makes ``L / C`` tokens per second.
All times are those of the simulated machine in seconds, before any scaling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence


class SpeedModel:
    """Times and acceptance of one simulated machine.

    Args of the constructor, as in node.json under ``speed``:
        token_ms: T1, decode step without speculation at batch 1.
        cycle_base_ms, cycle_step_ms: a and b of C(k) = a + b * k at batch 1.
        batch_slope: relative time added to a decode step by each further request of the batch.
        prefill_base_ms, prefill_token_ms: time of a prefill, and of each of its tokens that is not cached.
        acceptance: p_1, p_2 ...: probability that draft i is accepted when all before it were; the last one repeats.
        prompt_sd: spread of acceptance between prompts (relative standard deviation of each p).
        launch_sd, run_sd, request_sd: standard deviation of ln(time) between launches, runs and requests.
        eager_prefill_sd: the same of a prefill without a CUDA graph, between launches and between prefills.
    """

    def __init__(
        self,
        *,
        token_ms: float,
        cycle_base_ms: float,
        cycle_step_ms: float,
        acceptance: Sequence[float],
        batch_slope: float = 0.0,
        prefill_base_ms: float = 0.0,
        prefill_token_ms: float = 0.0,
        prompt_sd: float = 0.0,
        launch_sd: float = 0.0,
        run_sd: float = 0.0,
        request_sd: float = 0.0,
        eager_prefill_sd: float = 0.0,
    ) -> None:
        if not acceptance or not all(0.0 <= p <= 1.0 for p in acceptance):
            raise ValueError(f"acceptance must be probabilities between 0 and 1, not {list(acceptance)!r}.")
        self.token_ms = token_ms
        self.cycle_base_ms = cycle_base_ms
        self.cycle_step_ms = cycle_step_ms
        self.acceptance = list(acceptance)
        self.batch_slope = batch_slope
        self.prefill_base_ms = prefill_base_ms
        self.prefill_token_ms = prefill_token_ms
        self.prompt_sd = prompt_sd
        self.launch_sd = launch_sd
        self.run_sd = run_sd
        self.request_sd = request_sd
        self.eager_prefill_sd = eager_prefill_sd

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> SpeedModel:
        """Read the ``speed`` mapping of node.json."""
        return cls(**settings)

    def step_seconds(self, steps: int | None, batch: int = 1) -> float:
        """Return the time of one decode forward: C(k) with speculation, T1 when ``steps`` is None."""
        milliseconds = self.token_ms if steps is None else self.cycle_base_ms + self.cycle_step_ms * steps
        return milliseconds * (1.0 + self.batch_slope * (batch - 1)) / 1000.0

    def prefill_seconds(self, new_tokens: int) -> float:
        """Return the time of a prefill of so many tokens that are not in the cache."""
        return (self.prefill_base_ms + self.prefill_token_ms * new_tokens) / 1000.0

    def probability(self, position: int) -> float:
        """Return the probability that the draft at a position (from 1) is accepted when all before it were."""
        return self.acceptance[min(position, len(self.acceptance)) - 1]

    def expected_length(self, steps: int) -> float:
        """Return L(k) = 1 + p1 + p1 p2 + ... + p1 ... pk."""
        length, product = 1.0, 1.0
        for position in range(1, steps + 1):
            product *= self.probability(position)
            length += product
        return length

    def tokens_per_second(self, steps: int | None, batch: int = 1) -> float:
        """Return the expected decode speed of one request."""
        length = 1.0 if steps is None else self.expected_length(steps)
        return length / self.step_seconds(steps, batch)


class Acceptance:
    """Draws how many drafts each verify step of one request accepts.

    Args:
        model: the simulated machine.
        steps: the most draft steps that a verify step may have.
        generator: source of the draws.
        factor: how much easier than others this prompt is; 0 is a draft that is never right.
    """

    def __init__(self, model: SpeedModel, steps: int, generator: random.Random, factor: float = 1.0) -> None:
        self._generator = generator
        self._chances = [min(model.probability(i) * factor, 1.0) for i in range(1, steps + 1)]

    def draw(self, steps: int) -> int:
        """Return the number of accepted drafts of a verify step, 0 to the number of its draft steps."""
        for accepted, chance in enumerate(self._chances[:steps]):
            if self._generator.random() >= chance:
                return accepted
        return steps


def noise(generator: random.Random, standard_deviation: float) -> float:
    """Return a factor on time whose logarithm is normal with mean 0."""
    return generator.lognormvariate(0.0, standard_deviation) if standard_deviation > 0 else 1.0
