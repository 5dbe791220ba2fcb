"""Change single values of a JSON file and leave every other byte as it was.

A model's config.json is hashed by caches and compared by people. Reading and dumping it would lose the indentation, the
byte order mark, the number formats and the duplicate keys; here only the span of a value is exchanged.

Pure: no input or output.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Tuple

KeyPath = Tuple[str, ...]

_BYTE_ORDER_MARK = "\ufeff"
_WHITESPACE = " \t\n\r"
_DECODER = json.JSONDecoder()


class JsonEditError(ValueError):
    """The text is not a JSON object, or a key to change is not in it; the message is one sentence with the position."""


@dataclass(frozen=True)
class JsonDocument:
    """A JSON object together with the exact text it came from."""

    text: str
    value: Dict[str, Any]
    has_byte_order_mark: bool

    @classmethod
    def parse(cls, data: bytes) -> JsonDocument:
        """Read a JSON object as Python's json module (and so transformers) does; a duplicate key means its last value.

        Raises:
            JsonEditError: the bytes are not UTF-8, not JSON, or not an object.
        """
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise JsonEditError(f"not UTF-8 at byte {error.start}") from error
        has_byte_order_mark = text.startswith(_BYTE_ORDER_MARK)
        body = text[1:] if has_byte_order_mark else text
        try:
            value = json.loads(body)
        except json.JSONDecodeError as error:
            raise JsonEditError(f"invalid JSON at line {error.lineno} column {error.colno}: {error.msg}") from error
        except (RecursionError, ValueError) as error:
            raise JsonEditError(f"invalid JSON: {error}") from error
        if not isinstance(value, dict):
            raise JsonEditError(f"a JSON object is needed, this is a {type(value).__name__} (line 1 column 1)")
        return cls(body, value, has_byte_order_mark)

    def to_bytes(self) -> bytes:
        """The bytes that were parsed."""
        return (_BYTE_ORDER_MARK * self.has_byte_order_mark + self.text).encode()

    def replace(self, values: Mapping[KeyPath, Any]) -> JsonDocument:
        """A copy in which the value at each path is another one; all other characters are the same.

        Raises:
            JsonEditError: a path leads to no value, or one path lies inside another.
        """
        spans = sorted((*_span(self.text, path), path) for path in values)
        for (_, end, outer), (start, _, inner) in zip(spans, spans[1:]):  # noqa: B905, RUF007 (Python 3.9)
            if start < end:
                raise JsonEditError(f"{'.'.join(inner)} lies inside {'.'.join(outer)}: change one of them")
        text = self.text
        for start, end, path in reversed(spans):
            text = text[:start] + json.dumps(values[path]) + text[end:]
        return JsonDocument(text, json.loads(text), self.has_byte_order_mark)


def lookup(value: Mapping[str, Any], path: KeyPath) -> object:
    """The value at a path of keys, None where a key is missing or its parent is not an object."""
    current: object = value
    for key in path:
        if not isinstance(current, Mapping) or key not in current:
            return None
        current = current[key]
    return current


def _span(text: str, path: KeyPath) -> Tuple[int, int]:
    """Start and end of the value at a path in text that is known to be a JSON object."""
    start = _skip_whitespace(text, 0)
    end = len(text)
    for depth, key in enumerate(path):
        found = _member_span(text, start, key) if text[start] == "{" else None
        if found is None:
            raise JsonEditError(f"no key {'.'.join(path[: depth + 1])}")
        start, end = found
    return start, end


def _member_span(text: str, start: int, wanted: str) -> Tuple[int, int] | None:
    """Span of the value of the last member of that name in the object that begins at `start`."""
    found = None
    position = _skip_whitespace(text, start + 1)
    while text[position] == '"':
        key, position = _DECODER.raw_decode(text, position)
        position = _skip_whitespace(text, position)  # at the colon
        value_start = _skip_whitespace(text, position + 1)
        _, value_end = _DECODER.raw_decode(text, value_start)
        if key == wanted:
            found = (value_start, value_end)
        position = _skip_whitespace(text, value_end)
        if text[position] == ",":
            position = _skip_whitespace(text, position + 1)
    return found


def _skip_whitespace(text: str, position: int) -> int:
    while text[position] in _WHITESPACE:
        position += 1
    return position
