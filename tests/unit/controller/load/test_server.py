from __future__ import annotations

import json
from typing import Any

import pytest

from controller.load.server import ServerError, flush_cache, server_info
from controller.redaction import REDACTED, redact
from tests.unit.controller.load.scripted_server import plain, serving


def test_flush_waits_for_pending_requests() -> None:
    answers = [plain("400 Bad Request", b"pending"), plain("200 OK", b"flushed")]
    with serving(lambda *_: answers.pop(0)) as server:
        flush_cache(server.url, api_key="key")
    assert [path for path, _, _ in server.requests] == ["/flush_cache"] * 2
    assert server.requests[0][1]["authorization"] == "Bearer key"


def test_flush_gives_up() -> None:
    with (
        serving(lambda *_: plain("400 Bad Request", b"pending")) as server,
        pytest.raises(ServerError, match="answered 400: pending"),
    ):
        flush_cache(server.url, timeout=0.2)
    with serving(lambda *_: plain("500 Oops", b"")) as server, pytest.raises(ServerError, match="500: nothing"):
        flush_cache(server.url)
    with pytest.raises(ServerError, match="cannot be reached"):
        flush_cache("http://127.0.0.1:1")


def test_server_info_is_redacted() -> None:
    info = {
        "api_key": "sk-very-secret",
        "admin_api_key": None,
        "tokenizer_path": "/models/target",
        "max_total_num_tokens": 7,
        "launch_command": "python -m sglang.launch_server --api-key sk-very-secret --port 8000",
        "internal_states": [{"api_key": "sk-very-secret", "note": "ServerArgs(api_key='sk-very-secret', tp=8)"}],
        "argv": ["--api-key", "sk-very-secret", "--port", "8000"],
    }
    with serving(lambda *_: plain("200 OK", json.dumps(info).encode())) as server:
        found = server_info(server.url)
    assert "sk-very-secret" not in json.dumps(found)
    assert found["api_key"] == REDACTED
    assert found["admin_api_key"] is None
    assert found["tokenizer_path"] == "/models/target"
    assert found["max_total_num_tokens"] == 7
    assert found["launch_command"].endswith(f"--api-key {REDACTED} --port 8000")
    assert found["argv"] == ["--api-key", REDACTED, "--port", "8000"]


def test_old_name_of_server_info() -> None:
    def script(_method: str, path: str, _body: dict[str, Any]) -> list[Any]:
        return plain("404 Not Found", b"") if path == "/server_info" else plain("200 OK", b'{"version": "0.5.6"}')

    with serving(script) as server:
        assert server_info(server.url) == {"version": "0.5.6"}


@pytest.mark.parametrize("body", [b"[]", b"not json", b""])
def test_server_info_that_is_not_an_object(body: bytes) -> None:
    with (
        serving(lambda *_: plain("200 OK", body)) as server,
        pytest.raises(ServerError, match="Expected a JSON object"),
    ):
        server_info(server.url)


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("server_args=ServerArgs(api_key='abc123', admin_api_key=\"def456\")", ("abc123", "def456")),
        ("--api-key=abc123", ("abc123",)),
        ("['--api-key', 'abc123']", ("abc123",)),
        ('{"api_key": "abc123"}', ("abc123",)),
    ],
)
def test_secrets_in_text(text: str, gone: tuple[str, ...]) -> None:
    found = redact(text)
    assert found.count("REDACTED") == len(gone)
    assert all(secret not in found for secret in gone)


def test_what_is_no_secret_stays() -> None:
    for harmless in ({"speculative_token_map": "x"}, "api_key=None, tp_size=8", ["--port", "1"], 3, None):
        assert redact(harmless) == harmless
