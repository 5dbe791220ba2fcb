"""The answers of /server_info and /model_info."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import __version__
from .adaptive import candidate_steps

if TYPE_CHECKING:
    from .node import Node

_VISION = ("KimiK25ForConditionalGeneration",)


def model_info(fields: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Return the body of /model_info."""
    architectures = config.get("architectures")
    return {
        "model_path": fields["model_path"],
        "tokenizer_path": fields["tokenizer_path"],
        "is_generation": True,
        "preferred_sampling_params": fields["preferred_sampling_params"],
        "weight_version": fields["weight_version"],
        "has_image_understanding": any(name in _VISION for name in architectures or []),
        "has_audio_understanding": False,
        "model_type": config.get("model_type"),
        "architectures": architectures,
    }


def server_info(
    fields: dict[str, Any], scheduler: dict[str, Any], statistics: dict[str, Any], node: Node
) -> dict[str, Any]:
    """Return the body of /server_info: arguments (API keys in clear, as the real one), scheduler, internal state.

    ``simulated`` is the one key that a real server does not have.
    """
    internal = {
        **fields,
        "context_length": scheduler["context_len"],
        "disable_chunked_prefix_cache": True,
        "pp_max_micro_batch_size": scheduler["max_running_requests"],
        "_resolved_overrides": [["_page_size_default", {"page_size": fields["page_size"]}]],
        "enable_grpc": False,
        "grpc_port": 18000,
        "_quantization_explicitly_unset": False,
        "_cuda_graph_config_locked": [],
        "_declarations_materialized": True,
        "_mx_config_cache": {},
        "max_speculative_num_draft_tokens": fields["speculative_num_draft_tokens"],
        "last_gen_throughput": statistics.get("gen_throughput", 0.0),
        "memory_usage": scheduler["memory_usage"],
        "effective_max_running_requests_per_dp": scheduler["max_running_requests"],
    }
    if fields["speculative_adaptive"]:
        # What the scheduler uses now; the outer keys keep what the server was started with.
        steps = statistics.get("steps", fields["speculative_num_steps"])
        most = candidate_steps(fields["speculative_adaptive_config"])[-1]
        internal.update(
            speculative_num_steps=steps,
            speculative_num_draft_tokens=steps + 1,
            max_speculative_num_draft_tokens=most + 1,
        )
    # Folded in once every decode-log interval only: short runs never see the key.
    if statistics.get("avg_spec_accept_length") is not None:
        internal["avg_spec_accept_length"] = statistics["avg_spec_accept_length"]
    return {
        **fields,
        "status": "ready",
        "max_total_num_tokens": scheduler["max_total_num_tokens"],
        "max_req_input_len": scheduler["max_req_input_len"],
        "internal_states": [internal],
        "version": __version__,
        "kv_events": None,
        "simulated": {"time_scale": node.time_scale, "profile": node.profile},
    }
