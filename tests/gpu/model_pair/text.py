"""The text to train on: Python source that every machine with Python has, and a tokenizer made from it."""

from __future__ import annotations

import hashlib
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

END_OF_TEXT = 1
HELD_OUT_OF = 50
"""One file in so many is kept out of the training."""
SMALLEST, LARGEST = 1_000, 120_000
"""Characters of a file worth reading: larger ones are tables."""


def read_corpus(mib: int) -> tuple[list[str], list[str]]:
    """Read about ``mib`` MiB of Python source: what is trained on, and what is held out.

    Files are taken and split by a hash of their path below its root, so the choice does not depend on the file system.
    """
    roots = [Path(sysconfig.get_path("stdlib")), *map(Path, _site_folders())]
    files = sorted(
        {(_digest(str(path.relative_to(root))), path) for root in roots if root.is_dir() for path in _sources(root)}
    )
    train: list[str] = []
    held_out: list[str] = []
    room = mib << 20
    for digest, path in files:
        text = path.read_text(encoding="utf-8", errors="ignore")
        if not SMALLEST <= len(text) <= LARGEST:
            continue
        (held_out if int(digest[:8], 16) % HELD_OUT_OF == 0 else train).append(text)
        room -= len(text)
        if room < 0:
            break
    return train, held_out


def _site_folders() -> Iterator[str]:
    yield str(Path(torch.__file__).parent.parent)


def _sources(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*.py") if path.is_file())


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def make_tokenizer(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE on the first 16 MiB of the texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_first(texts, 16 << 20), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def _first(texts: Sequence[str], characters: int) -> Iterator[str]:
    for text in texts:
        characters -= len(text)
        if characters < 0:
            return
        yield text


def encode(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> np.ndarray:
    """Return all texts as one row of token ids, each ended by END_OF_TEXT."""
    encodings = tokenizer.backend_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return np.concatenate([np.array([*encoding.ids, END_OF_TEXT], dtype=np.int64) for encoding in encodings])


def prompts(held_out: Sequence[str], count: int, characters: int = 600) -> list[str]:
    """Return beginnings of lines-aligned pieces of the held-out files, no two from the same file."""
    chosen = []
    for text in held_out:
        start = text.find("\n", len(text) // 3) + 1
        piece = text[start : start + characters]
        if len(piece) == characters:
            chosen.append(piece)
        if len(chosen) == count:
            break
    return chosen
