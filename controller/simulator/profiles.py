"""Profiles: what a simulated node is like. All times are those of the machine it stands for, before scaling."""

from __future__ import annotations

import copy
from typing import Any

GPU_NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
GPU_MEMORY_MIB = 97887

# Eight PCIe cards, a 1T-parameter MoE in INT4: T1 = 12 ms, C(k) = 21 ms + 3 ms k, hence C(2) = 27 ms and C(3) = 30 ms.
# The draft was trained for another target: L(3) = 1.8, so three steps give 60 tok/s where no speculation gives 83.
_STORY_SPEED: dict[str, Any] = {
    "token_ms": 12.0,
    "cycle_base_ms": 21.0,
    "cycle_step_ms": 3.0,
    "acceptance": [0.5, 0.42, 0.4],
    "batch_slope": 0.06,
    "prefill_base_ms": 60.0,
    "prefill_token_ms": 0.15,
    "prompt_sd": 0.05,
    "launch_sd": 0.015,
    "run_sd": 0.004,
    "request_sd": 0.003,
    # On an H200 without prefill graphs: 0.20 between the requests of a launch, 0.18 between 17 launches.
    "eager_prefill_sd": 0.2,
}
_STORY_PHASES: dict[str, float] = {
    "imports_s": 25.0,
    "distributed_init_s": 6.0,
    "weights_s": 420.0,
    "draft_weights_s": 8.0,
    "memory_pool_s": 3.0,
    "target_prefill_graphs_s": 36.0,
    "target_verify_graphs_s": 24.0,
    "target_decode_graphs_s": 18.0,
    "draft_prefill_graphs_s": 2.0,
    "draft_decode_graphs_s": 10.0,
    "draft_extend_graphs_s": 3.0,
    "warmup_s": 10.0,
    # From "Gracefully exiting..." to the end: 2 to 4 s in 16 ends on an H200.
    "teardown_s": 3.0,
}
# Per GPU at tensor parallelism 8. A token of the MLA cache takes 576 values of 2 bytes in each of 61 layers on every
# rank; the draft's single layer is counted as if it were one of the target's.
_STORY_MEMORY: dict[str, float] = {
    "context_mib": 620,
    "weights_mib": 73_400,
    "draft_weights_mib": 640,
    "graph_mib": 260,
    "kv_bytes_per_token": 70_272,
    "draft_kv_bytes_per_token": 1_152,
}

_PROFILES: dict[str, dict[str, Any]] = {
    "story": {
        "description": "Speculation hurts: 83 tok/s without, about 60 tok/s with three steps (simulated).",
        "time_scale": 0.1,
        "loading_scale": 0.005,
    },
    "pays": {
        "description": "Speculation pays: the same machine with a fitting draft, L(3) = 2.9 (simulated).",
        "time_scale": 0.1,
        "loading_scale": 0.005,
        "speed": {"acceptance": [0.8, 0.78, 0.775]},
    },
    "fast": {
        "description": "For tests: the story's proportions, twenty times faster, loading in about a second.",
        "time_scale": 0.05,
        "loading_scale": 0.001,
    },
}

NAMES = tuple(_PROFILES)


def profile_settings(name: str) -> dict[str, Any]:
    """Return a profile's settings as they are written to node.json.

    Raises:
        ValueError: there is no such profile.
    """
    if name not in _PROFILES:
        raise ValueError(f"Unknown profile {name!r} for a simulated node; known are {', '.join(NAMES)}.")
    settings = copy.deepcopy(_PROFILES[name])
    settings["speed"] = {**_STORY_SPEED, **settings.get("speed", {})}
    settings["phases"] = {**_STORY_PHASES, **settings.get("phases", {})}
    settings["memory"] = {**_STORY_MEMORY, **settings.get("memory", {})}
    return settings
