"""Small draft and target model folders: real config.json keys, safetensors files with headers and no data."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

HIDDEN, VOCAB, DRAFT_VOCAB = 16, 100, 40


def target_config(**changes: Any) -> dict[str, Any]:
    return {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "text_config": {
            "hidden_size": HIDDEN,
            "vocab_size": VOCAB,
            "num_hidden_layers": 61,
            "num_attention_heads": 64,
            "max_position_embeddings": 262144,
            "rope_scaling": {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096},
            **changes,
        },
    }


def draft_config(**changes: Any) -> dict[str, Any]:
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "hidden_size": HIDDEN,
        "vocab_size": VOCAB,
        "draft_vocab_size": DRAFT_VOCAB,
        "num_hidden_layers": 1,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "max_position_embeddings": 131072,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58]},
        "tie_word_embeddings": False,
        **changes,
    }
    return {key: value for key, value in config.items() if value != "absent"}


def mla_draft_config(**changes: Any) -> dict[str, Any]:
    sizes = dict.fromkeys(("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"), 8)
    return draft_config(architectures=["Eagle3DeepseekV2ForCausalLM"], **{**sizes, **changes})


def draft_shapes(**changes: Any) -> dict[str, tuple[int, ...]]:
    shapes = {
        "midlayer.self_attn.q_proj.weight": (HIDDEN, 2 * HIDDEN),
        "fc.weight": (HIDDEN, 3 * HIDDEN),
        "lm_head.weight": (DRAFT_VOCAB, HIDDEN),
        "d2t": (DRAFT_VOCAB,),
        **changes,
    }
    return {name: shape for name, shape in shapes.items() if shape is not None}


def safetensors(shapes: dict[str, tuple[int, ...]]) -> bytes:
    header = {name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 4]} for name, shape in shapes.items()}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * 4


def write_target(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(target_config(**changes)))
    return folder


def write_draft(folder: Path, config: dict[str, Any] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(draft_config() if config is None else config, indent=4) + "\n")
    (folder / "model.safetensors").write_bytes(safetensors(draft_shapes()))
    return folder


def write_cached_draft(cache: Path) -> Path:
    """A draft as a Hugging Face cache holds it: the snapshot's files are links into blobs."""
    snapshot = cache / "snapshots" / "abc"
    write_draft(snapshot)
    (cache / "blobs").mkdir()
    (snapshot / "config.json").rename(cache / "blobs" / "c0ffee")
    (snapshot / "config.json").symlink_to("../../blobs/c0ffee")
    return snapshot
