"""Small pieces of Markdown that the generated pages share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MARKUP = re.compile(r"\b(?P<kind>[CVOMIBUEPL])\((?P<text>[^()]*(?:\([^()]*\)[^()]*)*)\)")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a cell may hold several lines and any character."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cell(text) for text in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Return text as it can stand in a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def escaped(text: str) -> str:
    """Return plain text so that Markdown shows it as it is."""
    return re.sub(r"([<>*_\[\]])", r"\\\1", text)


def code(text: object) -> str:
    """Return text as code."""
    shown = str(text)
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


def ansible(text: str) -> str:
    """Return a sentence of Ansible's documentation with its markup turned into Markdown.

    ``C()``, ``V()``, ``O()`` and ``E()`` become code, ``M()`` the name of a module, ``I()`` and ``B()`` emphasis.
    """

    def replace(found: re.Match[str]) -> str:
        inner = found["text"]
        if found["kind"] == "I":
            return f"*{inner}*"
        if found["kind"] == "B":
            return f"**{inner}**"
        if found["kind"] == "L":
            words, _, address = inner.rpartition(",")
            return f"[{words.strip()}]({address.strip()})"
        return inner if found["kind"] == "U" else code(inner)

    return _MARKUP.sub(replace, text)


def sentences(value: object) -> str:
    """Return a description, one sentence or a list of them, as one paragraph."""
    parts = value if isinstance(value, list) else [value]
    return " ".join(ansible(str(part).strip()) for part in parts if part)
