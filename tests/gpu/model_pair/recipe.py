"""Sizes and lengths of a training; everything that decides what comes out, but the text."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import argparse


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """What is trained and for how long.

    Attributes:
        vocabulary: Entries of the byte-level BPE and of the target's output.
        draft_vocabulary: The most frequent entries, which alone the draft model can propose.
        hidden: Width of both models.
        intermediate: Width of their feed-forward blocks.
        layers: Trained layers of the target.
        ballast: Layers put behind each trained one whose output projections are zero: they cost what a layer costs and
            change nothing, so that a verify step can be made as dear as it is in life without a longer training.
        heads: Attention heads, of ``hidden / heads`` each.
        key_value_heads: Heads of keys and values.
        sequence: Tokens of a training window.
        batch: Windows a step.
        target_steps: Optimiser steps of the target.
        draft_steps: Optimiser steps of the draft model.
        depth: Draft steps unrolled in training (EAGLE-3's training-time test).
        corpus_mib: Text to read, MiB.
        seed: Of weights, windows and the split.
    """

    vocabulary: int = 8192
    draft_vocabulary: int = 4096
    hidden: int = 1024
    intermediate: int = 2816
    layers: int = 12
    ballast: int = 0
    heads: int = 16
    key_value_heads: int = 8
    sequence: int = 512
    batch: int = 32
    target_steps: int = 700
    draft_steps: int = 450
    depth: int = 6
    corpus_mib: int = 60
    seed: int = 0

    @property
    def captured_layers(self) -> tuple[int, int, int]:
        """Trained layers whose *input* feeds the draft model: SGLang's own choice (models/llama.py, 0.5.15)."""
        return 2, self.layers // 2, self.layers - 3

    @property
    def saved_layers(self) -> int:
        """Layers of the saved target, ballast included."""
        return self.layers * (1 + self.ballast)

    def saved_index(self, layer: int) -> int:
        """Return where a trained layer stands in the saved target."""
        return layer * (1 + self.ballast)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for every field of a recipe."""
    for field in dataclasses.fields(Recipe):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, default=field.default)


def read_options(arguments: argparse.Namespace) -> Recipe:
    """Return the recipe that the options describe."""
    return Recipe(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Recipe)})


def half_precision(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Return the context for bfloat16 arithmetic; a CPU emulates it slowly, so it keeps single precision."""
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else contextlib.nullcontext()
