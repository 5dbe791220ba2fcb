"""Keep secrets out of records, logs and messages.

SGLang writes `api_key` and `admin_api_key` in clear into its start-up line `server_args=ServerArgs(...)` and into the
answer of `/server_info` (SGLang 0.5.15, `srt/server_args.py`, `srt/entrypoints/http_server.py`). Whatever leaves the
target therefore passes through here first.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence

REDACTED = "REDACTED"

# Words that make the name of a flag, a key or a variable suspect. "token" alone would hit num_draft_tokens.
_SECRET_NAME = re.compile(
    r"(api[-_]?key|secret|passw(or)?d|passphrase|credential|private[-_]?key|auth[-_]?token|access[-_]?key|access[-_]?token"
    r"|bearer|(^|[-_])token$|hf[-_]token|keyfile[-_]?password)",
    re.IGNORECASE,
)
# Values that are secrets wherever they stand, by the prefixes their issuers give them.
_SECRET_VALUE = re.compile(r"\b(sk-[A-Za-z0-9_-]{8,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,})")
_NAMED_VALUE = re.compile(
    r"(?P<name>['\"]?[\w-]*(?:api[-_]?key|secret|passw(?:or)?d|auth[-_]?token|access[-_]?token|hf[-_]token)[\w-]*['\"]?\s*[=:]\s*)"
    r"(?P<value>'[^']*'|\"[^\"]*\"|[^\s,)}\]]+)",
    re.IGNORECASE,
)
_FLAG_VALUE = re.compile(r"(?P<flag>--(?:admin-)?api-key[ =])(?P<value>\S+)")
_BEARER = re.compile(r"(?P<scheme>Bearer )(?P<value>\S+)", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Say whether a flag, key or variable of this name is expected to hold a secret."""
    return _SECRET_NAME.search(name) is not None


def redact_text(text: str, secrets: Sequence[str] = ()) -> str:
    """Replace secrets in a line of text.

    Args:
        text: one line or many.
        secrets: values known to be secret, replaced wherever they stand.
    """
    for secret in secrets:
        if secret:
            text = text.replace(secret, REDACTED)
    text = _NAMED_VALUE.sub(_keep_empty, text)
    text = _FLAG_VALUE.sub(rf"\g<flag>{REDACTED}", text)
    text = _BEARER.sub(rf"\g<scheme>{REDACTED}", text)
    return _SECRET_VALUE.sub(REDACTED, text)


def _keep_empty(match: re.Match[str]) -> str:
    """`api_key=None` says that there is no key, which is worth keeping."""
    value = match.group("value")
    if value.strip("'\"") in ("", "None", "null", REDACTED):
        return match.group(0)
    return match.group("name") + REDACTED


def redact_environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment with the values of suspect names, and suspect values, replaced."""
    return {
        name: REDACTED if is_secret_name(name) and value else redact_text(value) for name, value in environment.items()
    }


def redact_argv(argv: Sequence[str]) -> List[str]:
    """Return the command line with the values that follow a suspect flag replaced."""
    redacted: List[str] = []
    hide_next = False
    for word in argv:
        flag, separator, value = word.partition("=")
        is_flag = word.startswith("--")
        if hide_next and not is_flag:
            redacted.append(REDACTED)
        elif is_flag and separator and value and is_secret_name(flag):
            redacted.append(f"{flag}={REDACTED}")
        else:
            redacted.append(redact_text(word))
        hide_next = is_flag and not separator and is_secret_name(flag)
    return redacted


def redact_tree(value: Any, name: str = "") -> Any:  # noqa: ANN401 - JSON of any shape
    """Return a copy of parsed JSON in which every value under a suspect key, and every suspect text, is replaced."""
    if isinstance(value, dict):
        return {key: redact_tree(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [redact_tree(item, name) for item in value]
    if isinstance(value, str):
        return REDACTED if value and is_secret_name(name) else redact_text(value)
    return value
