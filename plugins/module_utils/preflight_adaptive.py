"""Whether adaptive speculation can start where it is told to.

SGLang prepares every candidate step count before it serves, and from 0.5.13 on refuses a start that is no candidate
(`srt/speculative/adaptive_spec_params.py`). From 0.5.15 to 0.5.18 the logits buffer that
its CUDA graphs share has room for the start only, so that a larger candidate ends the launch while graphs are captured
(`srt/model_executor/model_runner.py` `max_decode_logits_rows`; sgl-project/sglang issue 30549, mended in 0.5.19).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import parse_version

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_command_line import CommandLine

CONFIG_FLAG = "--speculative-adaptive-config"
_FLAG, _STEPS = "--speculative-adaptive", "--speculative-num-steps"
_FIRST_REFUSAL, _FIRST_SMALL_BUFFER, _FIRST_MENDED = (0, 5, 13), (0, 5, 15), (0, 5, 19)


def default_candidates(version: Optional[str]) -> Tuple[int, ...]:
    """The step counts that SGLang chooses among without a file, over all batch sizes (`adaptive_spec_params.py`)."""
    number = parse_version(version) if version else None
    if number is not None and number < (0, 5, 14):
        return (1, 3, 7)
    return (0, 1, 3, 5, 7) if number is not None and number >= (0, 5, 20) else (0, 1, 3, 7)


def read_candidates(path: str) -> Optional[Tuple[int, ...]]:
    """The step counts in a file for `--speculative-adaptive-config`; None when it cannot be read as one."""
    try:
        tiers = json.loads(Path(path).read_text(encoding="utf-8"))
        lists = [tier["candidate_steps"] for size, tier in tiers.items() if size.isdigit()]
        if not lists:  # before 0.5.13 there was one list for every batch size
            lists = [tiers["candidate_steps"]]
        return tuple(sorted({int(step) for steps in lists for step in steps}))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def adaptive_errors(
    command: CommandLine, version: Optional[str], candidates: Optional[Tuple[int, ...]] = None
) -> Iterator[str]:
    """What would end the launch; `candidates` are those of the file that the command line names."""
    if not command.has(_FLAG):
        return
    if candidates is None:
        if command.has(CONFIG_FLAG):
            yield f"{CONFIG_FLAG} {command.text(CONFIG_FLAG)} is no readable file of batch sizes and candidate_steps"
            return
        candidates = default_candidates(version)
    if not candidates:
        yield f"{CONFIG_FLAG} {command.text(CONFIG_FLAG)} names no candidate_steps"
        return
    start = command.number(_STEPS)
    if start is None:
        start = candidates[len(candidates) // 2]
    words = ", ".join(map(str, candidates))
    number = parse_version(version) if version else None
    if start not in candidates and (number is None or number >= _FIRST_REFUSAL):
        yield f"adaptive speculation cannot start at {start} steps: its candidates are {words}"
    elif number is not None and _FIRST_SMALL_BUFFER <= number < _FIRST_MENDED and start < candidates[-1]:
        yield (
            f"SGLang {version} dies while it captures graphs when adaptive speculation starts at {start} steps, below"
            f" its largest candidate {candidates[-1]}: start it there, or install 0.5.19"
        )
