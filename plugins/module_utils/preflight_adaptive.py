"""Whether adaptive speculation can start where it is told to.

SGLang prepares every candidate step count before it serves, and from 0.5.13 on refuses a start that is no candidate
(`srt/speculative/adaptive_spec_params.py`). From 0.5.15 to 0.5.18 the logits buffer that its CUDA graphs share has room
for the start only, so that a larger candidate ends the launch while graphs are captured (`srt/model_executor/
model_runner.py` `max_decode_logits_rows`; sgl-project/sglang issue 30549, mended in 0.5.19). That holds for every list
of batch sizes: `get_batch_sizes_to_capture` does not leave out those at which a candidate is never used. Without graphs
of decoding there is no such buffer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import Version, parse_version

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_command_line import CommandLine

CONFIG_FLAG = "--speculative-adaptive-config"
_FLAG, _STEPS = "--speculative-adaptive", "--speculative-num-steps"
_ALGORITHM = "--speculative-algorithm"
# Beside these SGLang goes on with fixed steps and says so (`adaptive_unsupported_reason`).
_FIXED_BESIDE = (
    "--enable-dp-attention",
    "--enable-multi-layer-eagle",
    "--enable-two-batch-overlap",
    "--enable-pdmux",
)
_GRAPHS_CONFIG, _GRAPHS_BACKEND = "--cuda-graph-config", "--cuda-graph-backend-decode"
_NO_GRAPHS = ("--disable-cuda-graph", "--disable-decode-cuda-graph", "--enable-mis")
_FIRST_REFUSAL, _FIRST_SMALL_BUFFER, _FIRST_MENDED = (0, 5, 13), (0, 5, 15), (0, 5, 19)


def default_candidates(version: Optional[str]) -> Tuple[int, ...]:
    """The step counts that SGLang chooses among without a file, over all batch sizes (`adaptive_spec_params.py`).

    Without a version, those of any release.
    """
    number = parse_version(version) if version else None
    if number is not None and number < (0, 5, 14):
        return (1, 3, 7)
    return (0, 1, 3, 5, 7) if number is None or number >= (0, 5, 20) else (0, 1, 3, 7)


def read_candidates(path: str) -> Optional[Tuple[int, ...]]:
    """The step counts in a file for `--speculative-adaptive-config`; None where SGLang 0.5.13 and later refuse it."""
    try:
        if not Path(path).is_file():  # a pipe would be waited for
            return None
        tiers = json.loads(Path(path).read_text(encoding="utf-8"))
        lists = [tier["candidate_steps"] for size, tier in tiers.items() if size.isdigit()]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not lists or not all(isinstance(steps, list) and steps for steps in lists):
        return None
    every = [step for steps in lists for step in steps]
    return tuple(sorted(set(every))) if all(isinstance(step, int) and step >= 0 for step in every) else None


def adaptive_errors(
    command: CommandLine, version: Optional[str], candidates: Optional[Tuple[int, ...]] = None
) -> Iterator[str]:
    """What would end the launch; `candidates` are those of the file that the command line names."""
    number = parse_version(version) if version else None
    if not _adapts(command) or (number is not None and number < _FIRST_REFUSAL):
        return
    if not candidates:
        if command.has(CONFIG_FLAG):
            yield f"{CONFIG_FLAG} {command.text(CONFIG_FLAG)} is no readable file of batch sizes and candidate_steps"
            return
        candidates = default_candidates(version)
    start = command.number(_STEPS)
    if start is None:
        start = candidates[len(candidates) // 2]
    words = ", ".join(map(str, candidates))
    if start not in candidates:
        yield f"adaptive speculation cannot start at {start} steps: its candidates are {words}"
    elif _has_small_buffer(number) and start < candidates[-1] and _captures_decoding(command):
        yield (
            f"SGLang {version} dies while it captures graphs when adaptive speculation starts at {start} steps, below"
            f" its largest candidate {candidates[-1]}: start it there, or install 0.5.19"
        )


def _has_small_buffer(number: Optional[Version]) -> bool:
    return number is not None and _FIRST_SMALL_BUFFER <= number < _FIRST_MENDED


def _adapts(command: CommandLine) -> bool:
    """Whether SGLang changes the steps, rather than go on with fixed ones; topk is another check's."""
    if command.has(_ALGORITHM) and command.text(_ALGORITHM).upper() not in ("EAGLE", "EAGLE3"):
        return False
    return command.has(_FLAG) and not any(map(command.has, _FIXED_BESIDE))


def _captures_decoding(command: CommandLine) -> bool:
    """Whether the server decodes by CUDA graphs (SGLang 0.5.15 `srt/server_args.py` `_parse_cuda_graph_config`)."""
    try:
        asked = json.loads(command.text(_GRAPHS_CONFIG))["decode"]["backend"]
    except (ValueError, TypeError, KeyError, RecursionError):
        asked = command.text(_GRAPHS_BACKEND)  # the JSON wins over it, and it over the flags alone
    if asked and not command.has("--enable-mis"):
        return str(asked) != "disabled"
    return not any(map(command.has, _NO_GRAPHS))
