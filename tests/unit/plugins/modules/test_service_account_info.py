from __future__ import annotations

import json
import os
import pwd
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import service_account
from ansible_collections.sglang_ops.eagle3.plugins.modules import service_account_info

OWN = pwd.getpwuid(os.geteuid()).pw_name
NOBODY_KNOWS = "no-such-user"
SYSTEM_PYTHON = "/usr/bin/python3"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to try what another user may")


def ask(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    given = {"python": sys.executable, "devices": []} | arguments
    with patch_module_args(given), pytest.raises(SystemExit):
        service_account_info.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_root_is_taken_at_its_word(capsys: pytest.CaptureFixture[str]) -> None:
    result = ask(capsys, user="root", python="/nonexistent")
    assert (result["user"], result["group"], result["notice"]) == ("root", "root", "")


def test_root_when_the_unprivileged_user_does_not_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, sentence: warnings.append(sentence))
    result = ask(capsys, candidate=NOBODY_KNOWS)
    assert result["user"] == "root"
    assert NOBODY_KNOWS in result["notice"]
    assert warnings == [result["notice"]]


def test_a_user_that_was_asked_for_must_exist(capsys: pytest.CaptureFixture[str]) -> None:
    result = ask(capsys, user=NOBODY_KNOWS)
    assert result["failed"]
    assert f"useradd --system {NOBODY_KNOWS}" in result["msg"]


def test_a_user_that_can_run_the_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    readable = [str(tmp_path), str(tmp_path / "missing"), "organisation/model"]
    result = ask(capsys, candidate=OWN, readable=readable, devices=["null"])
    assert result["user"] == OWN
    assert result["notice"] == ""


@pytest.mark.parametrize("python", ["/nonexistent/python3", "/bin/true", "/bin/false"])
def test_an_interpreter_that_does_not_start(capsys: pytest.CaptureFixture[str], python: str) -> None:
    assert f"cannot run {python}" in ask(capsys, candidate=OWN, python=python)["notice"]


def test_a_user_without_a_group_of_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_gid: int) -> None:
        raise KeyError

    monkeypatch.setattr("grp.getgrgid", unknown)
    assert service_account.examine(OWN, sys.executable, [], []).group == str(os.getegid())


@needs_root
def test_what_another_user_may_not_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for directory in (tmp_path, *tmp_path.parents[:3]):
        if directory != Path("/tmp"):
            directory.chmod(0o755)
    weights = tmp_path / "model.safetensors"
    weights.write_text("")
    weights.chmod(0o600)
    result = ask(capsys, candidate="nobody", python=SYSTEM_PYTHON, readable=[str(tmp_path)])
    assert result["user"] == "root"
    assert f"read {weights}" in result["notice"]
    refused = ask(capsys, user="nobody", python=SYSTEM_PYTHON, readable=[str(tmp_path)])
    assert refused["failed"]
    assert "set sglang_server_user to root" in refused["msg"]
    weights.chmod(0o644)
    result = ask(capsys, candidate="nobody", python=SYSTEM_PYTHON, readable=[str(tmp_path)])
    assert result["user"] == "nobody"
    assert result["home_writable"] is False
    tmp_path.chmod(0o700)
    assert (
        f"read {tmp_path}" in ask(capsys, candidate="nobody", python=SYSTEM_PYTHON, readable=[str(tmp_path)])["notice"]
    )
    device = Path("/dev/shm", f"of-root-only-{os.getpid()}")
    device.touch(mode=0o600)
    try:
        result = ask(capsys, candidate="nobody", python=SYSTEM_PYTHON, devices=[f"shm/{device.name}", "null"])
    finally:
        device.unlink()
    assert f"use {device}" in result["notice"]
    assert "/dev/null" not in result["notice"]
