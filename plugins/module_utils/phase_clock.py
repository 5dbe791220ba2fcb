"""Clocks of the phases: how long each may stand still, and how long each took in earlier launches."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.atomic_file import FileWriteError, replace_file
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import PHASES, Phase

# Seconds a phase may last without its log growing. Weights: 24 min of silence after the last shard were seen with
# Kimi-K2.5 on eight GPUs (sgl-project/sglang#17970); SGLang's own barrier between ranks is 480 s. Graphs: compiling
# kernels on the first launch takes minutes.
DEFAULT_LIMITS_S: Dict[str, float] = {
    "starting": 600.0,
    "distributed_init": 300.0,
    "weights": 3600.0,
    "draft_weights": 900.0,
    "memory_pool": 300.0,
    "target_graphs": 600.0,
    "draft_graphs": 600.0,
    "warmup": 300.0,
    # Of a server that has served: how long /health, which generates a token, may stay without one. SGLang gives up
    # after 20 s (SGLANG_HEALTH_CHECK_TIMEOUT).
    "serving": 15.0,
}
FILE_NAME = "phase_history.json"
KEPT_LAUNCHES = 10
KEPT_KEYS = 50


class PhaseLimitError(ValueError):
    """A limit is no good; the message is one sentence."""


def phase_limits(wanted: Mapping[str, Any]) -> Dict[str, float]:
    """Return the defaults changed by `wanted`, seconds by phase.

    Raises:
        PhaseLimitError: a phase is unknown, or a limit is no positive number.
    """
    limits = dict(DEFAULT_LIMITS_S)
    for name, value in wanted.items():
        if name not in DEFAULT_LIMITS_S:
            raise PhaseLimitError(
                f"phase_limits names {name!r}, which is no phase; the phases are {', '.join(DEFAULT_LIMITS_S)}"
            )
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = 0.0
        if not seconds > 0:
            raise PhaseLimitError(f"phase_limits gives {name} {value!r}, which is no positive number of seconds")
        limits[name] = seconds
    return limits


def still_for_s(phases: Sequence[Phase], elapsed_s: float, log_silent_s: float) -> float:
    """Return for how many seconds nothing advanced: neither the phase nor the log."""
    return max(0.0, min(elapsed_s - phases[-1].started_s, log_silent_s))


def history_key(version: str, tensor_parallel: Optional[int], *, speculative: bool) -> str:
    """Return what must be equal for two launches to take about the same time."""
    return f"{version or '?'}|tp{tensor_parallel or '?'}|{'speculative' if speculative else 'baseline'}"


class PhaseHistory:
    """How long the phases of earlier launches took; a file that cannot be used costs the estimate, no more."""

    def __init__(self, state_dir: str) -> None:
        self._path = Path(state_dir, FILE_NAME)
        self._launches: Dict[str, List[Dict[str, Any]]] = {}
        with contextlib.suppress(OSError, ValueError, AttributeError, KeyError, TypeError):
            content = json.loads(self._path.read_text(encoding="utf-8"))
            for key, launches in content["launches"].items():
                self._launches[str(key)] = [launch for launch in launches if _is_launch(launch)]

    def add(self, key: str, launch_id: str, phases: Sequence[Phase]) -> None:
        """Keep the durations of a launch that became ready; a launch counts once."""
        launches = self._launches.setdefault(key, [])
        if any(launch["launch_id"] == launch_id for launch in launches):
            return
        seconds = {p.name: round(p.ended_s - p.started_s, 3) for p in phases if p.ended_s is not None}
        launches.append({"launch_id": launch_id, "seconds": seconds})
        del launches[:-KEPT_LAUNCHES]
        while len(self._launches) > KEPT_KEYS:
            del self._launches[next(iter(self._launches))]
        with contextlib.suppress(OSError, FileWriteError):
            text = json.dumps({"schema": 1, "launches": self._launches})
            replace_file(self._path, text.encode(), mode=0o600)

    def eta_s(self, key_end: str, phases: Sequence[Phase], elapsed_s: float) -> Optional[float]:
        """Return the seconds until the server is probably ready, None without an earlier launch.

        Args:
            key_end: end of the key: before a server answers its version is not known.
            phases: of this launch so far.
            elapsed_s: since the launch.
        """
        earlier = [launch for key, launches in self._launches.items() if key.endswith(key_end) for launch in launches]
        if not earlier or phases[-1].name == "serving":
            return None
        present = phases[-1]
        typical = _medians([launch["seconds"] for launch in earlier])
        rest = max(0.0, typical.get(present.name, 0.0) - (elapsed_s - present.started_s))
        done = {phase.name for phase in phases}
        rest += sum(seconds for name, seconds in typical.items() if name not in done and name in PHASES)
        return round(rest, 1)


def _is_launch(launch: object) -> bool:
    return (
        isinstance(launch, dict)
        and isinstance(launch.get("launch_id"), str)
        and isinstance(launch.get("seconds"), dict)
        and all(isinstance(value, (int, float)) for value in launch["seconds"].values())
    )


def _medians(launches: Sequence[Mapping[str, float]]) -> Dict[str, float]:
    found: Dict[str, List[float]] = {}
    for seconds in launches:
        for name, value in seconds.items():
            found.setdefault(name, []).append(float(value))
    return {name: sorted(values)[len(values) // 2] for name, values in found.items()}
