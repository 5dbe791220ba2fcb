from __future__ import annotations

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import (
    REDACTED,
    is_secret_name,
    redact_argv,
    redact_environment,
    redact_text,
    redact_tree,
)


@pytest.mark.parametrize("name", ["--api-key", "admin_api_key", "HF_TOKEN", "SECRET", "ssl_keyfile_password", "token"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["speculative_num_draft_tokens", "max_total_tokens", "NCCL_PROTO", "tokenizer_path"])
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server_args=ServerArgs(api_key='s3cret', port=1)", f"server_args=ServerArgs(api_key={REDACTED}, port=1)"),
        ('{"admin_api_key": "abc", "n": 1}', f'{{"admin_api_key": {REDACTED}, "n": 1}}'),
        ("run --api-key abc --port 1", f"run --api-key {REDACTED} --port 1"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {REDACTED}"),
        ("key sk-abcdefgh1234", f"key {REDACTED}"),
        ("api_key=None, num_draft_tokens=4", "api_key=None, num_draft_tokens=4"),
    ],
)
def test_text(text: str, expected: str) -> None:
    assert redact_text(text) == expected


def test_known_secrets_go_wherever_they_stand() -> None:
    assert redact_text("GET /abc?x=hunter2", ["", "hunter2"]) == f"GET /abc?x={REDACTED}"


def test_command_line() -> None:
    argv = ["python", "--api-key", "x", "--port", "1", "--admin-api-key=y", "--api-key", "--flag"]
    expected = ["python", "--api-key", REDACTED, "--port", "1", f"--admin-api-key={REDACTED}", "--api-key", "--flag"]
    assert redact_argv(argv) == expected


def test_environment() -> None:
    environment = {"HF_TOKEN": "x", "EMPTY_SECRET": "", "NCCL_PROTO": "LL"}
    assert redact_environment(environment) == {"HF_TOKEN": REDACTED, "EMPTY_SECRET": "", "NCCL_PROTO": "LL"}


def test_tree() -> None:
    tree = {"api_key": "x", "list": [{"hf_token": "y"}, "Bearer z"], "n": 1, "none": None}
    expected = {"api_key": REDACTED, "list": [{"hf_token": REDACTED}, f"Bearer {REDACTED}"], "n": 1, "none": None}
    assert redact_tree(tree) == expected
