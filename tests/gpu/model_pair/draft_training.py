"""Training of the draft model on the target's hidden states, what it reaches on held-out text, and how it is saved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file
from torch.nn import functional

from tests.gpu.model_pair.draft import Draft
from tests.gpu.model_pair.recipe import half_precision
from tests.gpu.model_pair.target import schedule, windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    from tests.gpu.model_pair.recipe import Recipe

DRAFT_POSITIONS = 8192
"""Fewer than the target's 16384, as a draft trained on short text has: SGLang refuses the pair until it is patched."""
LATER_STEPS_WEIGH = 0.8
_LAYER = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")


def frequent_tokens(tokens: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """Return the ids of the most frequent tokens in ascending order: the draft's vocabulary."""
    counts = torch.bincount(tokens, minlength=recipe.vocabulary)
    return counts.topk(recipe.draft_vocabulary).indices.sort().values


def look_inside(target: LlamaForCausalLM, batch: torch.Tensor, recipe: Recipe) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the target's captured hidden states [batch, length, 3 * hidden] and its logits."""
    with torch.no_grad():
        seen = target(input_ids=batch, output_hidden_states=True, use_cache=False)
    return torch.cat([seen.hidden_states[layer] for layer in recipe.captured_layers], dim=-1), seen.logits


def train_draft(
    target: LlamaForCausalLM, tokens: torch.Tensor, vocabulary: torch.Tensor, recipe: Recipe, say: Callable[[str], None]
) -> Draft:
    """Train a draft model against the target's own distribution at every position and draft step."""
    draft: Draft = Draft(
        recipe.hidden,
        recipe.intermediate,
        recipe.heads,
        recipe.key_value_heads,
        recipe.draft_vocabulary,
        target.config.rope_parameters["rope_theta"],
    ).to(tokens.device)
    optimiser = torch.optim.AdamW(
        draft.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01, fused=tokens.is_cuda
    )
    rate = schedule(recipe.draft_steps, 1e-3)
    embedding = target.get_input_embeddings()
    for step, batch in zip(range(recipe.draft_steps), windows(tokens, recipe, recipe.seed + 1), strict=False):
        optimiser.param_groups[0]["lr"] = rate(step)
        aux, wanted = look_inside(target, batch, recipe)
        with half_precision(tokens.device):
            proposed = draft(embedding(batch).detach(), aux, recipe.depth)
        loss = torch.zeros((), device=tokens.device)
        hits = []
        for number, logits in enumerate(proposed):
            truth = wanted[:, 1 + number : 1 + number + logits.shape[1], vocabulary].float().softmax(-1)
            loss = (
                loss - LATER_STEPS_WEIGH**number * (truth * functional.log_softmax(logits.float(), -1)).sum(-1).mean()
            )
            hits.append((logits.argmax(-1) == truth.argmax(-1)).float().mean())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if step % 100 == 0 or step == recipe.draft_steps - 1:
            rates = " ".join(f"{hit.item():.2f}" for hit in hits)
            say(f"draft step {step}: loss {loss.item():.3f}, agrees with the target at each step {rates}")
    return draft


def acceptance_length(
    target: LlamaForCausalLM,
    draft: Draft,
    vocabulary: torch.Tensor,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    recipe: Recipe,
    *,
    new_tokens: int,
    steps: Sequence[int],
) -> dict[int, float]:
    """Return L by number of draft steps for greedy answers to prompts that were not trained on.

    The target writes its greedy answer; on that text the draft's chain from each position says how many of its tokens
    a verify step there would accept. Walking from cycle to cycle gives N and V; L = N / V over all prompts.
    """
    device = vocabulary.device
    longest = max(steps)
    totals = dict.fromkeys(steps, (0, 0))
    for prompt in prompts:
        ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)], device=device)
        answer = target.generate(ids, max_new_tokens=new_tokens, do_sample=False, eos_token_id=None)
        aux, _ = look_inside(target, answer, recipe)
        with torch.no_grad(), half_precision(device):
            proposed = draft(target.get_input_embeddings()(answer), aux, longest)
        roots = answer.shape[1] - longest - 1
        right = torch.stack(
            [
                vocabulary[logits[0, :roots].argmax(-1)] == answer[0, 2 + number : 2 + number + roots]
                for number, logits in enumerate(proposed)
            ]
        )
        run = right.long().cumprod(0)  # [steps, roots]: 1 while the chain from this root is still right
        for count in steps:
            totals[count] = _walk(run[:count].sum(0).tolist(), ids.shape[1] - 1, totals[count])
    return {count: tokens / cycles for count, (tokens, cycles) in totals.items()}


def _walk(accepted: list[int], position: int, total: tuple[int, int]) -> tuple[int, int]:
    tokens, cycles = total
    while position < len(accepted):
        tokens, cycles = tokens + accepted[position] + 1, cycles + 1
        position += accepted[position] + 1
    return tokens, cycles


def save_draft(draft: Draft, vocabulary: torch.Tensor, target: LlamaForCausalLM, recipe: Recipe, folder: Path) -> None:
    """Save configuration and weights under the names that SGLang reads."""
    folder.mkdir(parents=True, exist_ok=True)
    config = target.config.to_dict() | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": recipe.draft_vocabulary,
        "max_position_embeddings": DRAFT_POSITIONS,
        "target_hidden_size": recipe.hidden,
        "torch_dtype": "bfloat16",
        # SGLang adds 1: it captures what enters the layer after the one named here.
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": [recipe.saved_index(layer) - 1 for layer in recipe.captured_layers],
        },
    }
    (folder / "config.json").write_text(json.dumps(config, indent=4) + "\n")
    known = torch.zeros(recipe.vocabulary, dtype=torch.bool)
    known[vocabulary.cpu()] = True
    weights: dict[str, torch.Tensor] = {
        "d2t": vocabulary.cpu() - torch.arange(recipe.draft_vocabulary),
        "t2d": known,
    }
    for name, parameter in draft.state_dict().items():
        weights[_saved_name(name)] = parameter.to("cpu", torch.bfloat16).contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _saved_name(name: str) -> str:
    module = name.partition(".")[0]
    if module in _LAYER:
        return f"midlayer.self_attn.{name}"
    if module in _MLP:
        return f"midlayer.mlp.{name}"
    if module in {"hidden_norm", "input_layernorm", "post_attention_layernorm"}:
        return f"midlayer.{name}"
    return name
