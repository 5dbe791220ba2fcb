"""Draft steps that follow what is accepted: ``--speculative-adaptive``.

Source: srt/speculative/adaptive_spec_params.py and adaptive_runtime_state.py, 0.5.15. A tier is what SGLang calls a
slot: the step counts to choose from at one batch size and above, with an exponential mean of the accepted drafts.
"""

from __future__ import annotations

import bisect
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DEFAULT: dict[str, Any] = {
    "1": {"candidate_steps": [1, 3, 7], "down_hysteresis": -0.25},
    "8": {"candidate_steps": [0, 1, 3], "down_hysteresis": 0.0},
    "32": {"candidate_steps": [0, 1], "down_hysteresis": 0.0},
    "64": {"candidate_steps": [0], "down_hysteresis": 0.0},
}


def unsupported_reason(fields: dict[str, Any]) -> str | None:
    """Return why these arguments cannot adapt, None when they can."""
    algorithm, topk = fields["speculative_algorithm"], fields["speculative_eagle_topk"]
    if algorithm not in ("EAGLE", "EAGLE3"):
        return f"speculative_algorithm={algorithm} (only EAGLE/EAGLE3 are supported)"
    if topk not in (None, 1):
        return f"speculative_eagle_topk={topk} (only topk=1 is supported)"
    causes = {
        "enable_dp_attention": "adaptive tier decisions are not synchronized across DP ranks",
        "enable_multi_layer_eagle": "MultiLayerEagleWorkerV2 does not implement adaptive",
        "enable_two_batch_overlap": "adaptive state swap would discard the TboAttnBackend wrapper",
        "enable_pdmux": "adaptive state swap does not update decode_attn_backend_group",
    }
    for name, cause in causes.items():
        if fields[name]:
            return f"{name}=True is not supported ({cause})"
    return None


def _settings(path: str | None) -> dict[int, dict[str, Any]]:
    """Return each tier's settings by its smallest batch size; what stands beside the tiers holds for all of them."""
    config: dict[str, Any] = _DEFAULT if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
    tiers = {int(key): {**config, **entry} for key, entry in config.items() if key.isdigit()}
    for batch, settings in tiers.items():
        steps = config[str(batch)].get("candidate_steps")
        if not isinstance(steps, list) or not steps or not all(isinstance(step, int) and step >= 0 for step in steps):
            raise ValueError(f"BS {batch}: candidate_steps must be a list of non-negative ints, got {steps!r}")
        settings["candidate_steps"] = sorted(set(steps))
    if not tiers:
        raise ValueError(
            "speculative_adaptive_config must contain at least one integer-string BS key, e.g. "
            f'{{"1": {{"candidate_steps": [1,3,7]}}}}. Got keys: {list(config)}'
        )
    return tiers


def candidate_steps(path: str | None) -> list[int]:
    """Return every step count that any batch size may use, in order.

    Args:
        path: ``--speculative-adaptive-config``, None for SGLang's own tiers.

    Raises:
        OSError, ValueError: the file cannot be read, or holds no tier or a bad one.
    """
    return sorted({step for settings in _settings(path).values() for step in settings["candidate_steps"]})


class Tier:
    """Chooses the steps at one range of batch sizes.

    Attributes:
        candidates: the step counts to choose from, in order.
        steps: the one chosen.
        mean_accepted: exponential mean of the drafts accepted per verify step and request.
    """

    def __init__(self, start: int, settings: dict[str, Any]) -> None:
        self.candidates: list[int] = settings["candidate_steps"]
        self.steps = start if start in self.candidates else self.candidates[len(self.candidates) // 2]
        self.mean_accepted = self.steps - 1.0
        self._weight = float(settings.get("ema_alpha", 0.2))
        self._interval = int(settings.get("update_interval", 5))
        self._warmup = int(settings.get("warmup_batches", 10))
        self._down = float(settings.get("down_hysteresis", -0.25))
        self._up = float(settings.get("up_hysteresis", 0.0))
        self._ceiling = float(settings.get("ceiling_coeff", 0))
        self._verified = 0

    def observe(self, accepted: Sequence[int]) -> bool:
        """Take in the accepted drafts of each request of a batch and say whether the steps changed."""
        if not accepted:
            return False
        if self.steps > 0:
            mean = sum(accepted) / len(accepted)
            self.mean_accepted += self._weight * (mean - self.mean_accepted)
        self._verified += 1
        since_warmup = self._verified - self._warmup
        if since_warmup <= 0 or since_warmup % self._interval:
            return False
        before, self.steps = self.steps, self.candidates[self._chosen()]
        return self.steps != before

    def _chosen(self) -> int:
        at = self.candidates.index(self.steps)
        last = len(self.candidates) - 1
        if self.steps == 0:
            # Nothing is drafted, so nothing is learnt: the next candidate is tried.
            at = min(at + 1, last)
            if self.mean_accepted < 0:
                self.mean_accepted = max(self.candidates[at] - 1.0, self.mean_accepted)
            return at
        lower = at
        while lower > 0 and self.mean_accepted <= max(self.candidates[lower - 1] - 0.5, 0.5) + self._down:
            lower -= 1
        if lower == at:
            while at < last and self.mean_accepted > self.candidates[at] - 0.5 + self._up:
                at += 1
        else:
            at = lower
        if self._ceiling > 0 and self.candidates[at] <= self.steps:
            ceiling = max(1, math.ceil(self.mean_accepted * self._ceiling))
            while at > 0 and self.candidates[at] > ceiling:
                at -= 1
        return at


class AdaptiveSteps:
    """The steps in use on one server.

    Args:
        fields: resolved ``ServerArgs``.
        log: called with what the real server logs.

    Attributes:
        steps: draft steps of the next verify step.
    """

    def __init__(self, fields: dict[str, Any], log: Callable[[str], None]) -> None:
        self.steps: int = fields["speculative_num_steps"]
        self._log = log
        tiers = _settings(fields["speculative_adaptive_config"])
        self._tiers = {batch: Tier(self.steps, tiers[batch]) for batch in sorted(tiers)}
        self._smallest = list(self._tiers)
        # Only batch sizes that the command line names count here; those that SGLang chooses itself do not.
        self._graphs: list[int] = [] if fields["disable_cuda_graph"] else sorted(fields["cuda_graph_bs_decode"] or [])

    def announce(self) -> None:
        """Log the tier of the smallest batches, as the real server does while it starts."""
        first = self._tiers[self._smallest[0]]
        self._log(
            f"AdaptiveSpeculativeParams initialized: steps={first.steps}, candidate_steps={list(first.candidates)}"
        )

    def begin(self, batch: int) -> None:
        """Use the steps of a batch's size, before its decode step."""
        self._use(self._tier(batch).steps)

    def verified(self, accepted: Sequence[int]) -> None:
        """Learn from the accepted drafts of each request of a batch, after its decode step."""
        tier = self._tier(len(accepted))
        before = tier.steps
        if tier.observe(accepted):
            self._log(
                f"Adaptive spec params updated: steps {before} -> {tier.steps} "
                f"(ema_accept_len={tier.mean_accepted:.2f})"
            )
            self._use(tier.steps)

    def _tier(self, batch: int) -> Tier:
        padded = bisect.bisect_left(self._graphs, batch)
        size = self._graphs[padded] if padded < len(self._graphs) else batch
        return self._tiers[self._smallest[max(bisect.bisect_right(self._smallest, size) - 1, 0)]]

    def _use(self, steps: int) -> None:
        if steps == self.steps:
            return
        self._log(
            f"Switch adaptive runtime state: steps {self.steps} -> {steps}, "
            f"draft_tokens {self.steps + 1} -> {steps + 1}"
        )
        self.steps = steps
