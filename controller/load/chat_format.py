"""How a conversation becomes the one text that ``/generate`` takes.

``/generate`` applies no chat template, and a chat model answers unlike itself without one: acceptance depends on it.
The formats are the public ones of the model families; ``plain`` sends the words alone.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class ChatFormatError(ValueError):
    """A format or a role is not known. The message lists those that are."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChatFormat:
    """Markers around each turn. ``turn`` holds ``{role}`` and ``{content}``."""

    name: str
    begin: str
    turn: Mapping[str, str]
    answer: str

    def render(self, messages: Iterable[Mapping[str, str]]) -> str:
        """Return the text of a conversation, ready for the answer.

        Raises:
            ChatFormatError: a role has no marker in this format.
        """
        parts = [self.begin]
        for message in messages:
            role = message.get("role", "")
            if role not in self.turn:
                text = f"A message has role {role!r}; chat format {self.name} knows {', '.join(sorted(self.turn))}."
                raise ChatFormatError(text)
            parts.append(self.turn[role].replace("{content}", message.get("content", "")))
        return "".join([*parts, self.answer])


def _same(pattern: str, **names: str) -> dict[str, str]:
    """Return one turn pattern a role; ``names`` gives roles another name than their own."""
    return {role: pattern.replace("{role}", names.get(role, role)) for role in ("system", "user", "assistant")}


FORMATS = {
    chat_format.name: chat_format
    for chat_format in (
        ChatFormat("plain", "", _same("{content}\n\n"), ""),
        ChatFormat("chatml", "", _same("<|im_start|>{role}\n{content}<|im_end|>\n"), "<|im_start|>assistant\n"),
        ChatFormat(
            "llama-3",
            "",
            _same("<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>"),
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        ChatFormat(
            "kimi-k2",
            "",
            _same("<|im_{role}|>{role}<|im_middle|>{content}<|im_end|>"),
            "<|im_assistant|>assistant<|im_middle|>",
        ),
    )
}


def chat_format(name: str) -> ChatFormat:
    """Return the format called ``name``.

    Raises:
        ChatFormatError: there is none; the message lists the names.
    """
    if name not in FORMATS:
        message = f"Chat format {name!r} is not known; choose one of {', '.join(sorted(FORMATS))}."
        raise ChatFormatError(message)
    return FORMATS[name]
