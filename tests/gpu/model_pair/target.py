"""The target model: a Llama of a few layers, trained to predict the next token, and saved as SGLang loads it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.gpu.model_pair.recipe import half_precision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.gpu.model_pair.recipe import Recipe

POSITIONS = 16384
WARM_UP_STEPS = 60


def make_target(recipe: Recipe) -> LlamaForCausalLM:
    """Return an untrained target in single precision."""
    return LlamaForCausalLM(config_of(recipe, recipe.layers))


def config_of(recipe: Recipe, layers: int) -> LlamaConfig:
    """Return the target's configuration with so many layers."""
    return LlamaConfig(
        vocab_size=recipe.vocabulary,
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.key_value_heads,
        max_position_embeddings=POSITIONS,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=False,
    )


def windows(tokens: torch.Tensor, recipe: Recipe, seed: int) -> Iterator[torch.Tensor]:
    """Yield batches [batch, sequence] of windows at random places of ``tokens`` without end."""
    places = torch.Generator().manual_seed(seed)
    offsets = torch.arange(recipe.sequence)
    while True:
        starts = torch.randint(len(tokens) - recipe.sequence, (recipe.batch, 1), generator=places)
        yield tokens[(starts + offsets).to(tokens.device)]


def schedule(steps: int, peak: float) -> Callable[[int], float]:
    """Return the learning rate by step: a linear rise, then half a cosine down to a tenth."""

    def rate(step: int) -> float:
        rise = min(1.0, (step + 1) / WARM_UP_STEPS)
        return peak * rise * (0.55 + 0.45 * math.cos(math.pi * step / steps))

    return rate


def train_target(model: LlamaForCausalLM, tokens: torch.Tensor, recipe: Recipe, say: Callable[[str], None]) -> float:
    """Train in bfloat16 arithmetic on single-precision weights; returns the last loss, nats a token."""
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.05, fused=tokens.is_cuda
    )
    rate = schedule(recipe.target_steps, 1e-3)
    model.train()
    loss = torch.zeros(())
    for step, batch in zip(range(recipe.target_steps), windows(tokens, recipe, recipe.seed), strict=False):
        optimiser.param_groups[0]["lr"] = rate(step)
        with half_precision(tokens.device):
            loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if step % 100 == 0 or step == recipe.target_steps - 1:
            say(f"target step {step}: loss {loss.item():.3f}")
    return float(loss.item())


def save_target(model: LlamaForCausalLM, recipe: Recipe, folder: Path) -> None:
    """Save the target in bfloat16, with its ballast between the trained layers."""
    state = {name: tensor.to("cpu", torch.bfloat16) for name, tensor in model.state_dict().items()}
    if not recipe.ballast:
        model.to(torch.bfloat16).save_pretrained(folder)
        return
    with torch.device("meta"):
        saved = LlamaForCausalLM(config_of(recipe, recipe.saved_layers)).to(torch.bfloat16)
    saved.load_state_dict(dict(_with_ballast(state, recipe)), assign=True)
    saved.save_pretrained(folder)


def _with_ballast(state: dict[str, torch.Tensor], recipe: Recipe) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in state.items():
        parts = name.split(".")
        if parts[:2] != ["model", "layers"]:
            yield name, tensor
            continue
        first = recipe.saved_index(int(parts[2]))
        adds = ".".join(parts[3:]) in {"self_attn.o_proj.weight", "mlp.down_proj.weight"}
        for index in range(first, first + 1 + recipe.ballast):
            parts[2] = str(index)
            yield ".".join(parts), torch.zeros_like(tensor) if adds and index > first else tensor.clone()
