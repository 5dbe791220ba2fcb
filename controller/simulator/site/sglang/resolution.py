"""The rules between arguments that matter to speculative decoding (srt/arg_groups/speculative_hook.py, 0.5.15)."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

from .adaptive import candidate_steps, unsupported_reason
from .context_length import effective_context_length, read_config

if TYPE_CHECKING:
    from collections.abc import Callable

_EAGLE = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_DECODE_BATCHES = (1, 2, 4, 8, 12, *range(16, 257, 8))
_VERIFY_BATCHES = (*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8))


def resolve(fields: dict[str, Any], warn: Callable[[str], None], generator: random.Random | None = None) -> None:
    """Apply the rules to the fields in place.

    Args:
        fields: ``ServerArgs`` as parsed.
        warn: called with each line that the real server logs meanwhile.
        generator: source of the random seed that the server chooses when none is given.

    Raises:
        OSError, ValueError, TypeError, AssertionError: as the real server does, before any process is started.
    """
    if fields["tp_size"] * fields["pp_size"] % fields["nnodes"]:
        raise AssertionError("tp_size must be divisible by number of nodes")
    config = read_config(fields["model_path"])
    fields["tokenizer_path"] = fields["tokenizer_path"] or fields["model_path"]
    fields["served_model_name"] = fields["served_model_name"] or fields["model_path"]
    if fields["random_seed"] is None:
        fields["random_seed"] = (generator or random.Random()).randint(0, 1 << 30)  # noqa: S311 - a seed, no secret
    if fields["mem_fraction_static"] is None:
        fields["mem_fraction_static"] = 0.85
    _resolve_speculation(fields, config, warn)
    _resolve_graphs(fields)
    # The target's own limit is checked here; the draft's only in the scheduler, after the target's weights.
    effective_context_length(config, fields["context_length"], os.environ, warn=warn)


def _resolve_speculation(fields: dict[str, Any], config: dict[str, Any], warn: Callable[[str], None]) -> None:
    if os.environ.get("SGLANG_ENABLE_SPEC_V2") is not None:
        warn(
            "SGLANG_ENABLE_SPEC_V2 has been removed: speculative decoding always runs the V2 worker. "
            "Use --disable-overlap-schedule to select the non-overlap (synchronous) path."
        )
    algorithm = fields["speculative_algorithm"]
    if fields["speculative_draft_model_path"] is not None:
        fields["speculative_draft_model_revision"] = fields["speculative_draft_model_revision"] or "main"
        read_config(fields["speculative_draft_model_path"])
    if algorithm is not None:
        algorithm = algorithm.upper()
        fields["speculative_algorithm"] = "EAGLE" if algorithm == "NEXTN" else algorithm
    if fields["speculative_adaptive"]:
        _resolve_adaptive(fields, warn)
    if algorithm is None:
        return
    if algorithm not in _EAGLE:
        raise ValueError(f"Unknown speculative algorithm {algorithm}. The simulated server knows {', '.join(_EAGLE)}.")
    if fields["max_running_requests"] is None:
        fields["max_running_requests"] = 48
        warn(
            "Max running requests is reset to 48 for speculative decoding. "
            "You can override this by explicitly setting --max-running-requests."
        )
    if fields["enable_mixed_chunk"]:
        fields["enable_mixed_chunk"] = False
        warn("Mixed chunked prefill is disabled because of using eagle speculative decoding.")
    if fields["speculative_num_steps"] is None:
        # Bare assertions in the real server too: a user sees an AssertionError without a text.
        assert fields["speculative_eagle_topk"] is None  # noqa: S101
        assert fields["speculative_num_draft_tokens"] is None  # noqa: S101
        llama = (config.get("architectures") or [""])[0] in ("LlamaForCausalLM", "Grok1ForCausalLM")
        steps, topk, tokens = (5, 4, 8) if llama else (3, 1, 4)
        fields["speculative_num_steps"] = steps
        fields["speculative_eagle_topk"] = topk
        fields["speculative_num_draft_tokens"] = tokens
    topk, steps = fields["speculative_eagle_topk"], fields["speculative_num_steps"]
    if topk == 1 and fields["speculative_num_draft_tokens"] != steps + 1:
        warn("speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1")
        fields["speculative_num_draft_tokens"] = steps + 1
    # Without --speculative-eagle-topk this comparison is the TypeError that users of the real server see.
    if topk > 1 and fields["page_size"] > 1 and fields["attention_backend"] not in ("flashinfer", "fa3", "triton"):
        raise ValueError(
            "speculative_eagle_topk > 1 with page_size > 1 is only supported on ('flashinfer', 'fa3', 'triton'); "
            f"got attention_backend={fields['attention_backend']!r}. Use page_size == 1 or one of those backends."
        )


def _resolve_adaptive(fields: dict[str, Any], warn: Callable[[str], None]) -> None:
    reason = unsupported_reason(fields)
    if reason is not None:
        warn(f"speculative_adaptive disabled: {reason}. Falling back to static speculative params.")
        fields["speculative_adaptive"] = False
        return
    candidates = candidate_steps(fields["speculative_adaptive_config"])
    if fields["speculative_eagle_topk"] is None:
        fields["speculative_eagle_topk"] = 1
    if fields["speculative_num_steps"] is None:
        fields["speculative_num_steps"] = candidates[len(candidates) // 2]
    if fields["speculative_num_steps"] not in candidates:
        raise ValueError(
            f"--speculative-num-steps={fields['speculative_num_steps']} is not in the adaptive config candidate_steps "
            f"{candidates}. Pass one of those values."
        )
    fields["speculative_num_draft_tokens"] = fields["speculative_num_steps"] + 1


def _resolve_graphs(fields: dict[str, Any]) -> None:
    for name in ("decode", "prefill"):
        phase = fields["cuda_graph_config"][name]
        if fields["disable_cuda_graph"] or fields[f"disable_{name}_cuda_graph"]:
            phase["backend"] = "disabled"
        # A backend that is named wins over a switch.
        phase["backend"] = fields[f"cuda_graph_backend_{name}"] or phase["backend"]
    decode = fields["cuda_graph_config"]["decode"]
    largest = fields["cuda_graph_max_bs_decode"] or decode["max_bs"]
    batches = _DECODE_BATCHES if fields["speculative_algorithm"] is None else _VERIFY_BATCHES
    decode["max_bs"] = largest
    decode["bs"] = fields["cuda_graph_bs_decode"] or sorted({*(b for b in batches if b <= largest), largest})


def captured_batch_sizes(fields: dict[str, Any], max_running_requests: int) -> list[int]:
    """Return the decode batch sizes for which CUDA graphs are captured, the largest that can occur among them."""
    sizes: list[int] = fields["cuda_graph_config"]["decode"]["bs"]
    fitting = {size for size in sizes if size <= max_running_requests}
    return sorted(fitting if max(sizes) <= max_running_requests else {*fitting, max_running_requests})


def describe(fields: dict[str, Any]) -> str:
    """Return ``ServerArgs(...)`` as the real server logs it, secrets included: whoever stores it has to redact it."""

    def phase(settings: dict[str, Any]) -> str:
        return "PhaseConfig(" + ", ".join(f"{key}={value!r}" for key, value in settings.items()) + ")"

    parts = []
    for key, value in fields.items():
        if key == "cuda_graph_config":
            text = f"CudaGraphConfig(decode={phase(value['decode'])}, prefill={phase(value['prefill'])})"
        else:
            text = repr(value)
        parts.append(f"{key}={text}")
    return f"ServerArgs({', '.join(parts)})"
