from __future__ import annotations

import json
import time
from typing import Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import (
    REDACTED,
    is_secret_name,
    redact_argv,
    redact_environment,
    redact_stream,
    redact_text,
    redact_tree,
    split_secrets,
)

SECRET = "pl4nted s'ecr\"et/1"
"""Awkward to find: repr, JSON and addresses write it in three ways."""


@pytest.mark.parametrize(
    "name",
    [
        *("--api-key", "admin_api_key", "HF_TOKEN", "SECRET", "ssl_keyfile_password", "token", "AWS_SECRET_ACCESS_KEY"),
        *("apikey", "passphrase", "GITHUB_TOKEN", "auth-token", "privateKey", "credentials"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "speculative_num_draft_tokens",
            "max_total_tokens",
            "NCCL_PROTO",
            "tokenizer_path",
            "eos_token",
            "image_token",
        ),
        *("speculative_token_map", "key", "page_size"),
    ],
)
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server_args=ServerArgs(api_key='s3cret', port=1)", f"server_args=ServerArgs(api_key='{REDACTED}', port=1)"),
        ('{"admin_api_key": "abc", "n": 1}', f'{{"admin_api_key": "{REDACTED}", "n": 1}}'),
        (r'"{\"api_key\": \"abc\", \"n\": 1}"', rf'"{{\"api_key\": \"{REDACTED}\", \"n\": 1}}"'),
        ("run --api-key abc --port 1", f"run --api-key {REDACTED} --port 1"),
        ("--ssl-keyfile-password=abc", f"--ssl-keyfile-password={REDACTED}"),
        ("['--api-key', 'abc123']", f"['--api-key', '{REDACTED}']"),
        ("--api-key --port 1", "--api-key --port 1"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {REDACTED}"),
        ("authorization: Basic dTpwdw==", f"authorization: Basic {REDACTED}"),
        ("HF_TOKEN=abc eos_token='</s>'", f"HF_TOKEN={REDACTED} eos_token='</s>'"),
        ("https://user:pass@proxy:3128/", f"https://user:{REDACTED}@proxy:3128/"),
        ("key sk-abcdefgh1234", f"key {REDACTED}"),
        ("hf_abcdefghijklmnopqrst", REDACTED),
        ("api_key=None, num_draft_tokens=4", "api_key=None, num_draft_tokens=4"),
        ('"api_key": null, "api_key": ""', '"api_key": null, "api_key": ""'),
        ("#new-token: 12, token usage: 0.01", "#new-token: 12, token usage: 0.01"),
        ("http://127.0.0.1:8000/health", "http://127.0.0.1:8000/health"),
    ],
)
def test_text(text: str, expected: str) -> None:
    assert redact_text(text) == expected
    assert redact_text(expected) == expected


@pytest.mark.parametrize("secret", ["hunter2-hunter2", SECRET])
def test_known_secrets_go_however_they_are_written(secret: str) -> None:
    for written in (secret, repr(secret), json.dumps(secret), json.dumps(json.dumps({"x": secret}))):
        assert secret[:8] not in redact_text(f"GET /abc?x={written}&y", ["", secret])
    assert redact_text("GET /abc", ["GET"]) == "GET /abc", "a short value is in harmless words too"


def test_command_line() -> None:
    argv = ["python", "--api-key", "x", "--port", "1", "--admin-api-key=y", "--api-key", "--flag"]
    expected = ["python", "--api-key", REDACTED, "--port", "1", f"--admin-api-key={REDACTED}", "--api-key", "--flag"]
    assert redact_argv(argv) == expected


def test_environment() -> None:
    environment = {"HF_TOKEN": "x", "EMPTY_SECRET": "", "NCCL_PROTO": "LL"}
    assert redact_environment(environment) == {"HF_TOKEN": REDACTED, "EMPTY_SECRET": "", "NCCL_PROTO": "LL"}


def test_secrets_are_told_from_the_rest() -> None:
    variables = {"NCCL_PROTO": "LL", "HF_TOKEN": "x", "HTTPS_PROXY": "http://u:pw@h", "MY_TOKEN": "", "TOKENS": True}
    assert split_secrets(variables) == (
        {"NCCL_PROTO": "LL", "MY_TOKEN": "", "TOKENS": True},
        {"HF_TOKEN": "x", "HTTPS_PROXY": "http://u:pw@h"},
    )


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"api_key": "x", "n": 1, "none": None}, {"api_key": REDACTED, "n": 1, "none": None}),
        ({"list": [{"hf_token": "y"}, "Bearer z"]}, {"list": [{"hf_token": REDACTED}, f"Bearer {REDACTED}"]}),
        ({"argv": ["--api-key", "x", "--port", "1"]}, {"argv": ["--api-key", REDACTED, "--port", "1"]}),
        ({"password": 1234, "passwords": ["a"]}, {"password": REDACTED, "passwords": [REDACTED]}),
        ({"api_key": None, "use_secret": True, "secret": ""}, {"api_key": None, "use_secret": True, "secret": ""}),
        (("a", 1), ["a", 1]),
    ],
)
def test_tree(tree: Any, expected: Any) -> None:
    assert redact_tree(tree) == expected


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_a_log_may_be_cut_anywhere(size: int) -> None:
    line = f"ServerArgs(api_key={SECRET!r}, admin_api_key='other-secret')\n".encode()
    log = b"first\n\xff\xfe\rprogress\r" + line + b"decode " * 50 + b"\nlast, HF_TOKEN=unknown"
    blocks = [log[start : start + size] for start in range(0, len(log), size)]
    found = b"".join(redact_stream(blocks, [SECRET]))
    for secret in (b"ecr", b"other-secret", b"unknown"):
        assert secret not in found
    assert found.startswith(b"first\n\xff\xfe\rprogress\r")
    assert b"decode " * 50 in found


def test_a_line_without_end_does_not_pile_up() -> None:
    pieces = list(redact_stream([b"x" * 100] * 50, longest_line=1000))
    assert b"".join(pieces) == b"x" * 5000
    assert max(map(len, pieces)) <= 1100


@pytest.mark.parametrize("evil", ["-", "api_key", "api_key='", "http://", "Bearer ", "--api-key ", "A_", "secret"])
def test_no_text_takes_long(evil: str) -> None:
    started = time.process_time()
    redact_text(evil * (200_000 // len(evil)))
    assert time.process_time() - started < 3
