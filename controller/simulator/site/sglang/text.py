"""Simulated text: a tokenizer that counts, and a deterministic continuation of every prompt.

Greedy decoding must give the same text with and without speculation, so the text is a function of the prompt alone;
how many tokens appear at once is a matter of speed, not of content.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

VOCABULARY = 163840
_WORDS = (Path(__file__).parent / "data" / "words.txt").read_text(encoding="ascii").split()
_PIECE = re.compile(r"\w{1,6}|[^\w\s]|\s{2,}")


def encode(text: str) -> list[int]:
    """Return stable token ids for a text, about one for each word or sign."""
    return [
        int.from_bytes(hashlib.blake2b(p.encode(), digest_size=4).digest(), "big") % VOCABULARY
        for p in _PIECE.findall(text)
    ] or [0]


class Continuation:
    """The tokens that follow a prompt, made one block at a time as they are needed."""

    def __init__(self, prompt: Sequence[int], salt: str = "") -> None:
        joined = ",".join(map(str, prompt))
        self._seed = hashlib.blake2b(f"{salt}|{joined}".encode(), digest_size=16).digest()
        self._ids: list[int] = []
        # Where the model would stop by itself: somewhere between 192 and 1215 tokens.
        self.natural_length = 192 + int.from_bytes(self._seed[:2], "big") % 1024

    def ids(self, start: int, end: int) -> list[int]:
        """Return the token ids at positions start to end (exclusive)."""
        while len(self._ids) < end:
            block = hashlib.blake2b(self._seed + len(self._ids).to_bytes(8, "big"), digest_size=64).digest()
            for at in range(0, 64, 2):
                self._ids.append(int.from_bytes(block[at : at + 2], "big"))
        return self._ids[start:end]


def decode(ids: Sequence[int]) -> str:
    """Return the text of token ids made by ``Continuation``; pieces can be joined."""
    pieces = []
    for token in ids:
        word = _WORDS[token % len(_WORDS)]
        pieces.append(f" {word}." if token % 13 == 0 else f" {word}")
    return "".join(pieces)
