"""How messages are written."""

from __future__ import annotations


def as_sentence(text: object) -> str:
    """Return a clause, such as an exception's message, with a capital letter and one full stop."""
    clause = str(text).rstrip(".")
    return f"{clause[:1].upper()}{clause[1:]}."
