"""Keep secrets out of records, logs and messages: the one place that knows what a secret looks like.

SGLang writes `api_key` and `admin_api_key` in clear into its start-up line `server_args=ServerArgs(...)` and into the
answer of `/server_info` (SGLang 0.5.15, `srt/server_args.py`, `srt/entrypoints/http_server.py`). Whatever leaves the
target, and whatever the controller keeps, therefore passes through here first. Three things give a secret away: its
name, its form (the prefixes that issuers use, a bearer token, the password in an address), and its value where that is
known. Standard library only, because it also runs on the target.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple
from urllib.parse import quote

REDACTED = "REDACTED"
SHORTEST_SECRET = 8
"""Known values shorter than this are not searched for: they stand in harmless words as well."""

_NAMES = (
    r"api[-_]?key|secret|passw(?:or)?d|passphrase|credential|(?:private|access)[-_]?key"
    r"|(?:auth|access|api|bearer|hf|refresh|session)[-_]?token"
)
# "token" alone would hit num_draft_tokens, and a tokenizer's eos_token is no secret.
_SECRET_NAME = re.compile(rf"{_NAMES}|bearer|(?:^|[-_])token$", re.IGNORECASE)
_TOKENIZER_NAME = re.compile(
    r"(?:^|[-_])(?:bos|eos|pad|unk|mask|sep|cls|stop|image|video|audio|media)[-_]token$", re.IGNORECASE
)
# Values that are secrets wherever they stand, by the prefixes their issuers give them.
_SECRET_VALUE = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{8,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|hvs\.[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16})"
)
# A value in quotes (with backslashes before them in JSON within JSON), or one that ends where a word does.
_VALUE = r"(?:(?P<open>\\*['\"])(?P<quoted>.*?)(?P=open)|(?P<bare>[^\s,;&)}\]'\"\\]+))"
_NAMED_VALUE = re.compile(rf"(?P<name>(?i:{_NAMES})[\w-]{{0,60}}(?:\\*['\"])?\s*[=:]\s*){_VALUE}")
_TOKEN_VARIABLE = re.compile(rf"(?P<name>\b[A-Z][A-Z0-9_]{{0,60}}TOKEN(?:\\*['\"])?\s*[=:]\s*){_VALUE}")
_FLAG_VALUE = re.compile(
    rf"(?P<flag>(?<![\w-])--[\w-]{{0,40}}?(?:{_NAMES})[\w-]{{0,60}}(?:['\"],\s*['\"]|\s+|=))(?P<value>(?!--)[^\s'\",\]]+)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<scheme>\bBearer\s+)(?P<value>[^\s'\",;)}\]\\]+)", re.IGNORECASE)
_BASIC = re.compile(r"(?P<scheme>\bauthorization['\"]?\s*[=:]\s*['\"]?Basic\s+)[A-Za-z0-9+/=]+", re.IGNORECASE)
_ADDRESS = re.compile(r"(?P<user>\b[a-z][a-z0-9+.-]{1,15}://[^\s/@:'\"]*:)[^\s/@'\"]+(?=@)", re.IGNORECASE)
_NOTHING = ("", "None", "null", REDACTED)
# In lower case. A line without any of these cannot match a rule above; looking for them is a hundred times faster.
_HINTS = (
    *("apikey", "api_key", "api-key", "secret", "passw", "passphrase", "credential"),
    *("privatekey", "private_key", "private-key", "accesskey", "access_key", "access-key"),
    *(
        f"{kind}{mark}token"
        for kind in ("auth", "access", "api", "hf", "refresh", "session")
        for mark in ("", "_", "-")
    ),
    *("bearer", "basic ", "://", "sk-", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hvs."),
    *("xox", "akia"),
)


def is_secret_name(name: str) -> bool:
    """Say whether a flag, key or variable of this name is expected to hold a secret."""
    return _SECRET_NAME.search(name) is not None and _TOKENIZER_NAME.search(name) is None


def redact_text(text: str, secrets: Sequence[str] = ()) -> str:
    """Replace secrets in text.

    Args:
        text: one line or many.
        secrets: values known to be secret, replaced wherever they stand and however they are quoted; those shorter than
            `SHORTEST_SECRET` characters are left to the other rules.
    """
    for form in _forms(secrets):
        text = text.replace(form, REDACTED)
    if not _suspect(text):
        return text
    return "".join(_redact_line(line) if _suspect(line) else line for line in text.splitlines(keepends=True))


def _suspect(text: str) -> bool:
    lowered = text.lower()
    return "TOKEN" in text or any(hint in lowered for hint in _HINTS)


def _redact_line(text: str) -> str:
    for pattern in (_NAMED_VALUE, _TOKEN_VARIABLE):
        text = pattern.sub(_keep_empty, text)
    text = _FLAG_VALUE.sub(rf"\g<flag>{REDACTED}", text)
    text = _BEARER.sub(rf"\g<scheme>{REDACTED}", text)
    text = _BASIC.sub(rf"\g<scheme>{REDACTED}", text)
    text = _ADDRESS.sub(rf"\g<user>{REDACTED}", text)
    return _SECRET_VALUE.sub(REDACTED, text)


def _forms(secrets: Iterable[str]) -> List[str]:
    """Return how the known values may be written, longest first: one may be part of another."""
    forms = set()
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            written = {secret, repr(secret)[1:-1]}
            for _ in range(2):  # JSON within JSON
                written |= {json.dumps(form)[1:-1] for form in written}
            forms |= {*written, quote(secret), quote(secret, safe="")}
    return sorted(forms, key=len, reverse=True)


def _keep_empty(match: re.Match[str]) -> str:
    """`api_key=None` says that there is no key, which is worth keeping; so are the quotes, or JSON would break."""
    opening = match.group("open") or ""
    value = match.group("quoted") if opening else match.group("bare")
    if value in _NOTHING:
        return match.group(0)
    return f"{match.group('name')}{opening}{REDACTED}{opening}"


def redact_stream(blocks: Iterable[bytes], secrets: Sequence[str] = (), longest_line: int = 1 << 20) -> Iterator[bytes]:
    """Redact a log of any size, block by block.

    Args:
        blocks: the log, cut anywhere. Bytes that are no UTF-8 pass through unchanged.
        secrets: see `redact_text`.
        longest_line: a line is looked at as a whole up to this many bytes; a longer one is cut at a space.
    """
    rest = b""
    for block in blocks:
        rest += block
        end = max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1
        if not end and len(rest) > longest_line:
            end = rest.rfind(b" ") + 1 or len(rest)
        if end:
            yield _redact_bytes(rest[:end], secrets)
            rest = rest[end:]
    if rest:
        yield _redact_bytes(rest, secrets)


def _redact_bytes(data: bytes, secrets: Sequence[str]) -> bytes:
    return redact_text(data.decode("utf-8", "surrogateescape"), secrets).encode("utf-8", "surrogateescape")


def redact_environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment with the values of suspect names, and suspect values, replaced."""
    return {
        name: REDACTED if is_secret_name(name) and value else redact_text(value) for name, value in environment.items()
    }


def split_secrets(variables: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Return the variables (or flags) that may be shown, and those whose name or value gives them away as secrets."""
    public: Dict[str, Any] = {}
    secret: Dict[str, Any] = {}
    for name, value in variables.items():
        suspect = is_secret_name(str(name)) or redact_text(str(value)) != str(value)
        hidden = suspect and value is not None and not isinstance(value, bool) and str(value) != ""
        (secret if hidden else public)[name] = value
    return public, secret


def redact_argv(argv: Sequence[str], secrets: Sequence[str] = ()) -> List[str]:
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
            redacted.append(redact_text(word, secrets))
        hide_next = is_flag and not separator and is_secret_name(flag)
    return redacted


def redact_tree(value: Any, name: str = "", secrets: Sequence[str] = ()) -> Any:  # noqa: ANN401 - JSON of any shape
    """Return a copy of parsed JSON in which every value under a suspect key, and every suspect text, is replaced.

    Lists of words are taken for command lines: the word after a suspect flag goes too. Empty values stay, so that "no
    key" can still be seen.
    """
    if isinstance(value, dict):
        return {key: redact_tree(item, str(key), secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if not is_secret_name(name) and value and all(isinstance(item, str) for item in value):
            return redact_argv(value, secrets)
        return [redact_tree(item, name, secrets) for item in value]
    if isinstance(value, str):
        return REDACTED if value and is_secret_name(name) else redact_text(value, secrets)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and is_secret_name(name):
        return REDACTED
    return value
