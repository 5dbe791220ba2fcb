"""The draft model: one layer that reads the target's hidden states, as SGLang's ``LlamaForCausalLMEagle3`` does.

The arithmetic follows sglang/srt/models/llama_eagle3.py (0.5.15). At position ``t`` the layer reads the token at
``t + 1`` and the target's hidden states at ``t``, and proposes the token at ``t + 2``. From the second draft step on it
reads its own output instead of the target's. Training unrolls this (EAGLE-3, arXiv 2503.01840, "training-time test"):
step ``j`` attends to what came before by the keys of step 0, and to its own chain by those of steps 1 to ``j``.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Norm(nn.Module):  # type: ignore[misc]  # torch is only on the GPU machine
    """Root-mean-square normalisation with a weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Normalise the last dimension."""
        return functional.rms_norm(value, value.shape[-1:], self.weight.to(value.dtype), 1e-6)


class Draft(nn.Module):  # type: ignore[misc]  # torch is only on the GPU machine
    """An EAGLE-3 draft model of one layer.

    Args:
        hidden: Width.
        intermediate: Width of the feed-forward block.
        heads: Attention heads.
        key_value_heads: Heads of keys and values.
        draft_vocabulary: Tokens that it can propose.
        rope_theta: Base of the rotary embedding, the target's.
    """

    def __init__(
        self, hidden: int, intermediate: int, heads: int, key_value_heads: int, draft_vocabulary: int, rope_theta: float
    ) -> None:
        super().__init__()
        self.heads, self.key_value_heads, self.head_width = heads, key_value_heads, hidden // heads
        self.rope_theta = rope_theta
        keys = key_value_heads * self.head_width
        self.fc = nn.Linear(3 * hidden, hidden, bias=False)
        self.hidden_norm, self.input_layernorm = Norm(hidden), Norm(hidden)
        self.post_attention_layernorm, self.norm = Norm(hidden), Norm(hidden)
        self.q_proj = nn.Linear(2 * hidden, hidden, bias=False)
        self.k_proj = nn.Linear(2 * hidden, keys, bias=False)
        self.v_proj = nn.Linear(2 * hidden, keys, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)
        self.lm_head = nn.Linear(hidden, draft_vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, embeds: torch.Tensor, aux: torch.Tensor, depth: int) -> list[torch.Tensor]:
        """Unroll ``depth`` draft steps from every root position.

        Args:
            embeds: Embeddings of the tokens, [batch, length, hidden].
            aux: The target's captured hidden states, [batch, length, 3 * hidden].
            depth: Draft steps.

        Returns:
            Logits of each step, [batch, length - depth, draft_vocabulary]: entry ``t`` of step ``j`` proposes the token
            at ``t + 2 + j``.
        """
        roots = embeds.shape[1] - depth
        state = self.fc(aux[:, :roots])
        keys: list[torch.Tensor] = []
        values: list[torch.Tensor] = []
        logits = []
        for step in range(depth):
            state = self._layer(embeds[:, 1 + step : 1 + step + roots], state, step, keys, values)
            logits.append(self.lm_head(self.norm(state)))
        return logits

    def _layer(
        self,
        embeds: torch.Tensor,
        state: torch.Tensor,
        step: int,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
    ) -> torch.Tensor:
        joined = torch.cat([self.input_layernorm(embeds), self.hidden_norm(state)], dim=-1)
        query = self._rotate(self._split(self.q_proj(joined), self.heads), step)
        keys.append(self._grouped(self._rotate(self._split(self.k_proj(joined), self.key_value_heads), step)))
        values.append(self._grouped(self._split(self.v_proj(joined), self.key_value_heads)))
        state = state + self.o_proj(self._attend(query, keys, values))
        normed = self.post_attention_layernorm(state)
        return state + self.down_proj(functional.silu(self.gate_proj(normed)) * self.up_proj(normed))

    def _attend(self, query: torch.Tensor, keys: list[torch.Tensor], values: list[torch.Tensor]) -> torch.Tensor:
        scale = self.head_width**-0.5
        length = query.shape[2]
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
        scores = [(query @ keys[0].transpose(-1, -2) * scale).masked_fill(future, float("-inf"))]
        scores += [(query * key).sum(-1, keepdim=True) * scale for key in keys[1:]]
        weights = torch.cat(scores, dim=-1).float().softmax(-1).to(query.dtype)
        attended = weights[..., :length] @ values[0]
        for number, value in enumerate(values[1:]):
            attended = attended + weights[..., length + number : length + number + 1] * value
        return attended.transpose(1, 2).flatten(2)

    def _split(self, value: torch.Tensor, heads: int) -> torch.Tensor:
        return value.unflatten(-1, (heads, self.head_width)).transpose(1, 2)

    def _grouped(self, value: torch.Tensor) -> torch.Tensor:
        return value.repeat_interleave(self.heads // self.key_value_heads, dim=1)

    def _rotate(self, value: torch.Tensor, shift: int) -> torch.Tensor:
        half = self.head_width // 2
        device = value.device
        frequencies = self.rope_theta ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
        angles = (torch.arange(value.shape[2], device=device, dtype=torch.float32) + shift)[:, None] * frequencies
        cos, sin = angles.cos().to(value.dtype), angles.sin().to(value.dtype)
        first, second = value[..., :half], value[..., half:]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
