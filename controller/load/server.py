"""Questions to the server outside a run: clear its cache, read what it says about itself."""

from __future__ import annotations

import json
import time
from typing import Any

from controller.redaction import redact

BUSY = 400  # SGLang refuses to flush while requests are pending


class ServerError(RuntimeError):
    """The server did not do what was asked. The message names the address and the answer."""


def flush_cache(base_url: str, *, api_key: str | None = None, timeout: float = 30.0) -> None:
    """Empty the prefix cache (``POST /flush_cache``), waiting for requests that are still pending.

    Raises:
        ServerError: the server cannot be reached, or still refuses after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        status, text = _ask("POST", base_url, "/flush_cache", api_key=api_key, timeout=timeout)
        if status == 200:
            return
        if status != BUSY or time.monotonic() > deadline:
            answer = text[:200] or "nothing"
            message = f"{base_url}/flush_cache answered {status}: {answer}. The prefix cache was not emptied."
            raise ServerError(message)
        time.sleep(0.1)


def server_info(base_url: str, *, api_key: str | None = None, timeout: float = 10.0) -> dict[str, Any]:
    """Return ``/server_info`` without secrets (``/get_server_info`` where only that exists).

    Raises:
        ServerError: the server cannot be reached or its answer is not a JSON object.
    """
    for path in ("/server_info", "/get_server_info"):
        status, text = _ask("GET", base_url, path, api_key=api_key, timeout=timeout)
        if status != 404:
            break
    try:
        data = json.loads(text) if status == 200 else None
    except ValueError:
        data = None
    if not isinstance(data, dict):
        message = f"{base_url}{path} answered {status}: {text[:200] or 'nothing'}. Expected a JSON object."
        raise ServerError(message)
    return dict(redact(data, secrets=[api_key] if api_key else []))


def _ask(method: str, base_url: str, path: str, *, api_key: str | None, timeout: float) -> tuple[int, str]:
    """Send one request and return status and text. httpx is imported late: 0.15 s that a plan does not need."""
    import httpx  # noqa: PLC0415

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        # No proxy from the environment: a server of the fleet is asked directly.
        with httpx.Client(trust_env=False, timeout=timeout) as client:
            answer = client.request(method, base_url.rstrip("/") + path, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"{base_url}{path} cannot be reached: {str(error) or type(error).__name__}."
        raise ServerError(message) from error
    return answer.status_code, answer.text
