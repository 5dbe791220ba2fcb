"""Model folders of a node: real layouts of config.json and safetensors headers, no weights.

The files are sparse: they have the right size and headers, and take next to no space. The context lengths are those of
the real pair that does not fit: a Kimi-K2.5 target (262144) with a draft made for Kimi-K2 (131072).
"""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

HIDDEN = 7168
VOCABULARY = 163840
DRAFT_VOCABULARY = 32000
TARGET_LAYERS = 61
_BYTES = {"BF16": 2, "I64": 8, "BOOL": 1}

TARGET_CONFIG: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "dtype": "bfloat16",
    "media_placeholder_token_id": 163605,
    "pad_token_id": 163839,
    "bos_token_id": 163584,
    "eos_token_id": 163586,
    "tie_word_embeddings": False,
    "text_config": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "kimi_k2",
        "hidden_size": HIDDEN,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": TARGET_LAYERS,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "n_routed_experts": 384,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 1,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-05,
        "rope_theta": 50000.0,
        "rope_scaling": {
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "factor": 64.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096,
            "type": "yarn",
        },
        "max_position_embeddings": 262144,
        "vocab_size": VOCABULARY,
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
        },
    },
    "vision_config": {"model_type": "moonvit", "hidden_size": 1152, "num_hidden_layers": 27, "patch_size": 14},
}

DRAFT_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": 18432,
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "head_dim": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "rope_scaling": None,
    "max_position_embeddings": 131072,
    "vocab_size": VOCABULARY,
    "draft_vocab_size": DRAFT_VOCABULARY,
    "bos_token_id": 163584,
    "eos_token_id": 163586,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58], "use_aux_hidden_state": True},
}

_HEADS = 64 * 128
_DRAFT_TENSORS: dict[str, tuple[str, list[int]]] = {
    "d2t": ("I64", [DRAFT_VOCABULARY]),
    "fc.weight": ("BF16", [HIDDEN, 3 * HIDDEN]),
    "lm_head.weight": ("BF16", [DRAFT_VOCABULARY, HIDDEN]),
    "midlayer.hidden_norm.weight": ("BF16", [HIDDEN]),
    "midlayer.input_layernorm.weight": ("BF16", [HIDDEN]),
    "midlayer.mlp.down_proj.weight": ("BF16", [HIDDEN, 18432]),
    "midlayer.mlp.gate_proj.weight": ("BF16", [18432, HIDDEN]),
    "midlayer.mlp.up_proj.weight": ("BF16", [18432, HIDDEN]),
    "midlayer.post_attention_layernorm.weight": ("BF16", [HIDDEN]),
    "midlayer.self_attn.k_proj.weight": ("BF16", [_HEADS, 2 * HIDDEN]),
    "midlayer.self_attn.o_proj.weight": ("BF16", [HIDDEN, _HEADS]),
    "midlayer.self_attn.q_proj.weight": ("BF16", [_HEADS, 2 * HIDDEN]),
    "midlayer.self_attn.v_proj.weight": ("BF16", [_HEADS, 2 * HIDDEN]),
    "norm.weight": ("BF16", [HIDDEN]),
    "t2d": ("BOOL", [VOCABULARY]),
}


def write_safetensors(path: Path, tensors: dict[str, tuple[str, list[int]]]) -> int:
    """Write a valid safetensors file of zeros, sparse, and return the bytes of its tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + _BYTES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors start at a multiple of 8
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return end


def write_target(folder: Path) -> None:
    """Write the target model: config.json, an index and 64 small shards."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", TARGET_CONFIG, indent=2)
    generation = {"max_length": 262144, "eos_token_id": TARGET_CONFIG["eos_token_id"]}
    _write_json(folder / "generation_config.json", generation, indent=2)
    names = [f"language_model.model.layers.{layer}.input_layernorm.weight" for layer in range(TARGET_LAYERS)]
    names += [
        "language_model.model.norm.weight",
        "mm_projector.pre_norm.weight",
        "vision_tower.encoder.final_layernorm.weight",
    ]
    total, weight_map = 0, {}
    for number, name in enumerate(names, 1):
        file = f"model-{number:05d}-of-{len(names):06d}.safetensors"
        width = HIDDEN if name.startswith("language_model") else 1152
        total += write_safetensors(folder / file, {name: ("BF16", [width])})
        weight_map[name] = file
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    _write_json(folder / "model.safetensors.index.json", index, indent=2)


def write_draft(folder: Path) -> None:
    """Write the EAGLE-3 draft model."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", DRAFT_CONFIG, indent=4)
    write_safetensors(folder / "model.safetensors", _DRAFT_TENSORS)


def _write_json(path: Path, value: dict[str, Any], indent: int) -> None:
    path.write_text(json.dumps(value, indent=indent) + "\n", encoding="utf-8")
