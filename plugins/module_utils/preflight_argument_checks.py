"""Whether SGLang would take these flags and do what they say (pure).

Sources: SGLang 0.5.6 `srt/server_args.py` (`_handle_speculative_decoding`), 0.5.23 `srt/arg_groups/speculative_hook.py`
(`_handle_eagle_family`); `srt/arg_groups/model_path_hook.py` for the weight cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, FrozenSet, Iterator, List, Mapping, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import parse_version
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_adaptive import adaptive_errors
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_check import (
    Check,
    failed,
    passed,
    unknown,
    warned,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_flags import problem_with, translation

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_command_line import CommandLine

SPEC_V2 = "SGLANG_ENABLE_SPEC_V2"
_STEPS, _TOPK, _TOKENS = (
    "--speculative-num-steps",
    "--speculative-eagle-topk",
    "--speculative-num-draft-tokens",
)


def check_flags(command: CommandLine, version: Optional[str], flags: Optional[FrozenSet[str]], source: str) -> Check:
    """Whether the version takes every flag; `flags` is None when its flags are not known, `source` says whence."""
    name = "server-flags"
    if flags is None:
        return unknown(name, f"the flags of SGLang {version or '(version unknown)'} are not known here")
    problems = [(flag, problem_with(flag, flags)) for flag in command.flags]
    wrong = [(flag, problem) for flag, problem in problems if problem]
    if not wrong:
        return passed(name, f"SGLang {version} takes all {len(command.flags)} flags ({source})")
    renames = {flag: translation(flag, flags) for flag, _ in wrong if translation(flag, flags)}
    detail = f"SGLang {version} refuses: " + "; ".join(problem for _, problem in wrong)
    if "--cuda-graph-max-bs" in renames or "--cuda-graph-max-bs-decode" in renames:
        new = next(iter(renames.values()))
        remedy = f"set sglang_server_cuda_graph_max_bs_flag: {new}"
    else:
        remedy = "correct sglang_server_extra_flags, or install an SGLang that has them"
    return failed(name, detail, remedy)


def check_speculation(
    command: CommandLine,
    version: Optional[str],
    environment: Mapping[str, object],
    candidates: Optional[Tuple[int, ...]] = None,
) -> Check:
    """The rules between steps, topk and draft tokens; `candidates` are those of a file for adaptive speculation."""
    name = "speculative-arguments"
    if not command.speculative:
        return unknown(name, "the server is started without speculation")
    errors = [*_errors(command, version), *adaptive_errors(command, version, candidates)]
    warnings = list(_warnings(command, version, environment))
    if errors:
        return failed(name, "; ".join(errors), "correct the sglang_server_speculative_* variables")
    if warnings:
        return warned(name, "; ".join(warnings), "set the variables to what SGLang will use, so that nobody is misled")
    steps, topk, tokens = (command.number(flag) for flag in (_STEPS, _TOPK, _TOKENS))
    return passed(name, f"{steps} steps, topk {topk}, {tokens} draft tokens are consistent")


def _errors(command: CommandLine, version: Optional[str]) -> Iterator[str]:
    steps, topk, tokens = (command.number(flag) for flag in (_STEPS, _TOPK, _TOKENS))
    numbers: List[Optional[int]] = [steps, topk, tokens]
    if not command.text("--speculative-draft-model-path"):
        yield "no --speculative-draft-model-path: SGLang would load the target as its own draft"
    if any(number is not None for number in numbers) and any(number is None for number in (steps, topk)):
        yield "steps and topk must be given together: SGLang stops with a bare AssertionError or TypeError"
    if steps == 0:
        yield "0 steps is not a baseline: the draft is loaded and never used"
    if steps and topk and topk > 1:
        if tokens is None:
            yield f"topk {topk} needs a number of draft tokens"
        # Every step keeps topk candidates; the first draft token is the target's own.
        elif tokens > topk + (steps - 1) * topk * topk + 1:
            yield f"{tokens} draft tokens are more than {steps} steps with topk {topk} can make"
    if command.has("--speculative-adaptive") and topk not in (None, 1):
        yield "--speculative-adaptive needs topk 1"
    if (command.number("--pp-size") or 1) > 1 and command.text("--speculative-algorithm") == "EAGLE3":
        yield "EAGLE3 is refused with pipeline parallelism"
    number = parse_version(version) if version else None
    if command.has("--weight-cache-mode") and number is not None and number >= (0, 5, 17):
        yield "--weight-cache-mode is refused with speculation"


def _warnings(command: CommandLine, version: Optional[str], environment: Mapping[str, object]) -> Iterator[str]:
    steps, topk, tokens = (command.number(flag) for flag in (_STEPS, _TOPK, _TOKENS))
    if steps is not None and topk == 1 and tokens is not None and tokens != steps + 1:
        yield f"with topk 1 SGLang rewrites {tokens} draft tokens to {steps + 1} (steps + 1)"
    number = parse_version(version) if version else None
    if SPEC_V2 in environment and number is not None and number >= (0, 5, 14):
        yield f"{SPEC_V2} has no effect from SGLang 0.5.14 on"
