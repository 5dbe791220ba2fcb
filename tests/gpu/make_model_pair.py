"""Write a small Llama target and a random EAGLE-3 draft whose context lengths clash, for a real SGLang to load.

    python3 make_model_pair.py ROOT     writes ROOT/target and ROOT/draft

The target says 16384 positions and the draft 8192, so SGLang refuses the pair until the draft's config is patched. The
draft's weights are random: no token is ever accepted (acceptance length 1.00), which the controller must call a fault.
Needs torch, transformers, tokenizers and safetensors; runs on the CPU in a few seconds.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 4096
HIDDEN = 512
INTERMEDIATE = 1536
TARGET_POSITIONS = 16384
DRAFT_POSITIONS = 8192


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Train a byte-level BPE of VOCABULARY entries on the standard library's own source."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.decoder = decoders.ByteLevel()
    library = Path(os.__file__).parent
    files = [str(path) for path in sorted(library.glob("*.py"))[:80]]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train(files, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def make_target(root: Path) -> LlamaConfig:
    """Save a bfloat16 Llama of 8 layers with random weights and its tokenizer; returns its config."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INTERMEDIATE,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=TARGET_POSITIONS,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(root)
    make_tokenizer().save_pretrained(root)
    return config


def make_draft(root: Path, target: LlamaConfig) -> None:
    """Save an EAGLE-3 draft of one layer (SGLang's LlamaForCausalLMEagle3) with random weights."""
    root.mkdir(parents=True, exist_ok=True)
    config = target.to_dict() | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": VOCABULARY,
        "max_position_embeddings": DRAFT_POSITIONS,
        "target_hidden_size": HIDDEN,
        "torch_dtype": "bfloat16",
    }
    (root / "config.json").write_text(json.dumps(config, indent=4) + "\n")

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.bfloat16) * 0.02

    def ones() -> torch.Tensor:
        return torch.ones(HIDDEN, dtype=torch.bfloat16)

    weights = {
        "fc.weight": random(HIDDEN, 3 * HIDDEN),
        "norm.weight": ones(),
        "lm_head.weight": random(VOCABULARY, HIDDEN),
        "d2t": torch.zeros(VOCABULARY, dtype=torch.int64),
        "t2d": torch.ones(VOCABULARY, dtype=torch.bool),
    }
    layer = {
        "self_attn.q_proj.weight": random(HIDDEN, 2 * HIDDEN),
        "self_attn.k_proj.weight": random(HIDDEN, 2 * HIDDEN),
        "self_attn.v_proj.weight": random(HIDDEN, 2 * HIDDEN),
        "self_attn.o_proj.weight": random(HIDDEN, HIDDEN),
        "mlp.gate_proj.weight": random(INTERMEDIATE, HIDDEN),
        "mlp.up_proj.weight": random(INTERMEDIATE, HIDDEN),
        "mlp.down_proj.weight": random(HIDDEN, INTERMEDIATE),
        "input_layernorm.weight": ones(),
        "hidden_norm.weight": ones(),
        "post_attention_layernorm.weight": ones(),
    }
    weights |= {f"midlayer.{name}": tensor for name, tensor in layer.items()}
    save_file(weights, root / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    """Make both models under the folder given on the command line."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "models")
    torch.manual_seed(0)
    target = make_target(root / "target")
    make_draft(root / "draft", target)
    print(f"wrote {root}/target ({TARGET_POSITIONS} positions) and {root}/draft ({DRAFT_POSITIONS} positions)")


if __name__ == "__main__":
    main()
