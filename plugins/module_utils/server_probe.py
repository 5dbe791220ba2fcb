"""Ask a server over HTTP: health and effective settings. Standard library only, because it runs on the target.

`/health` makes SGLang generate a token (SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION, on by default in 0.5.6-0.5.23) and
answers 503 until its own warm-up request has succeeded, or when no token came within 20 s
(SGLANG_HEALTH_CHECK_TIMEOUT): so it is asked rarely, and with more patience than that.
"""

from __future__ import annotations

import http.client
import json
from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import redact_tree

HEALTH_TIMEOUT_S = 25.0
INFO_TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 8 * 1024 * 1024

# What the result of the module shows of /server_info.
SERVER_FIELDS = (
    "version",
    "served_model_name",
    "model_path",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_num_draft_tokens",
    "speculative_eagle_topk",
    "max_running_requests",
    "simulated",
)


class ProbeError(Exception):
    """The server gave no usable answer; the message is one sentence."""


def _get(host: str, port: int, path: str, timeout_s: float, api_key: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(MAX_ANSWER_BYTES)
    finally:
        connection.close()


def health_status(host: str, port: int, timeout_s: float = HEALTH_TIMEOUT_S) -> Optional[int]:
    """Return the HTTP status of `/health` (which needs no key), None when nobody answers."""
    try:
        return _get(host, port, "/health", timeout_s, "")[0]
    except (OSError, http.client.HTTPException):
        return None


def server_info(host: str, port: int, api_key: str = "", timeout_s: float = INFO_TIMEOUT_S) -> Dict[str, Any]:
    """Return the answer of `/server_info`, secrets redacted.

    Raises:
        ProbeError: nobody answers, the key is refused, or the answer is not a JSON object.
    """
    try:
        status, body = _get(host, port, "/server_info", timeout_s, api_key)
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(f"http://{host}:{port}/server_info does not answer ({error})") from error
    if status == 401:
        raise ProbeError(f"http://{host}:{port}/server_info refuses the key; set sglang_server_api_key")
    if status != 200:
        raise ProbeError(f"http://{host}:{port}/server_info answers with status {status}")
    try:
        content = json.loads(body)
    except ValueError as error:
        raise ProbeError(f"http://{host}:{port}/server_info does not answer with JSON ({error})") from error
    if not isinstance(content, dict):
        raise ProbeError(f"http://{host}:{port}/server_info does not answer with a JSON object")
    redacted = redact_tree(content)
    assert isinstance(redacted, dict)  # noqa: S101 - a dictionary stays one
    return redacted


def summarize(info: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the fields of `/server_info` that matter here; None where this version does not tell."""
    return {name: info.get(name) for name in SERVER_FIELDS}


def differences(wanted: Mapping[str, Any], info: Mapping[str, Any]) -> List[str]:
    """Compare what was asked for with what the server does, one sentence part for each difference.

    SGLang rewrites settings with no more than a warning (draft tokens to steps + 1 with topk 1,
    `arg_groups/speculative_hook.py`). A field that this version does not report is not compared.

    Args:
        wanted: name in `/server_info` -> value; a value None is not compared, except for `speculative_algorithm`,
            where it means no speculation.
        info: the answer of `/server_info`.
    """
    found = []
    for name, value in wanted.items():
        if name not in info or (value is None and name != "speculative_algorithm"):
            continue
        effective = info[name]
        if str(effective) != str(value):
            found.append(f"{name} is {effective}, not {value}")
    return found
