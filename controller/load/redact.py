"""Takes secrets out of what a server says about itself: ``/server_info`` of SGLang carries its API keys in clear."""

from __future__ import annotations

import re
from typing import Any

REDACTED = "<redacted>"
SECRET_NAME = re.compile(
    r"(api[_-]?key|password|passwd|secret|credential|private[_-]?key|(auth|access|bearer|hf|api)[_-]token)$",
    re.IGNORECASE,
)
SECRET_ARGUMENT = re.compile(
    r"(--[\w-]*(?:api-key|password|secret|token-file|auth-token)[\w-]*)([ =]+|['\"],\s*['\"])([^\s'\",\]]+)",
    re.IGNORECASE,
)
SECRET_FIELD = re.compile(r"((?:admin_)?api_key['\"]?\s*[=:]\s*['\"]?)(?!None\b|null\b)([^\s'\",)}]+)", re.IGNORECASE)


def redact(value: object) -> Any:  # noqa: ANN401  # JSON in, JSON of the same shape out
    """Return a copy in which values under secret names, and secrets inside command lines, are replaced.

    Empty values (null, "") stay, so that "no key" can still be seen.
    """
    if isinstance(value, dict):
        return {key: REDACTED if item and SECRET_NAME.search(str(key)) else redact(item) for key, item in value.items()}
    if isinstance(value, list):
        return _redact_arguments([redact(item) for item in value])
    if isinstance(value, str):
        return SECRET_FIELD.sub(rf"\1{REDACTED}", SECRET_ARGUMENT.sub(rf"\1\2{REDACTED}", value))
    return value


def _redact_arguments(items: list[Any]) -> list[Any]:
    """Replace the element after a secret flag in an argument list."""
    result = list(items)
    for place in range(1, len(items)):
        flag = items[place - 1]
        if isinstance(flag, str) and flag.startswith("--") and SECRET_NAME.search(flag):
            result[place] = REDACTED
    return result
