from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.modules import service_process_info

if TYPE_CHECKING:
    from pathlib import Path

MORE_THAN_ANY_KERNEL_GRANTS = "99999999999"


class Systemd:
    """A systemctl that answers what it is told to."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "systemctl"
        self.answers(f"MainPID={os.getpid()}", "ExecMainStartTimestampMonotonic=5", "ConditionResult=yes")

    def answers(self, *lines: str, status: int = 0) -> None:
        text = "\n".join(lines)
        self.program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {status}\n")
        self.program.chmod(0o755)

    def ask(self, capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
        given = {"unit": "sglang.service", "systemctl": str(self.program)} | arguments
        with patch_module_args(given), pytest.raises(SystemExit):
            service_process_info.main()
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return result


@pytest.fixture
def systemd(tmp_path: Path) -> Systemd:
    return Systemd(tmp_path)


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, sentence: said.append(sentence))
    return said


def test_what_is_granted_is_said(systemd: Systemd, capsys: pytest.CaptureFixture[str], warnings: list[str]) -> None:
    result = systemd.ask(capsys, nofile="1", memlock="0")
    assert result["pid"] == os.getpid()
    assert set(result["granted"]) == {"nofile", "memlock", "oom_score_adj"}
    assert result["shortfalls"] == []
    assert not warnings
    assert result["changed"] is False


@pytest.mark.parametrize("on_shortfall", ["warn", "fail", "ignore"])
def test_what_is_not_granted(
    systemd: Systemd, capsys: pytest.CaptureFixture[str], warnings: list[str], on_shortfall: str
) -> None:
    result = systemd.ask(capsys, nofile=MORE_THAN_ANY_KERNEL_GRANTS, oom_score_adj=-999, on_shortfall=on_shortfall)
    nofile, oom = result["shortfalls"]
    assert f"lxc.prlimit.nofile: {MORE_THAN_ANY_KERNEL_GRANTS}" in nofile
    assert "instead of -999" in oom
    assert bool(result.get("failed")) is (on_shortfall == "fail")
    assert warnings == ([nofile, oom] if on_shortfall == "warn" else [])
    if on_shortfall == "fail":
        assert nofile in result["msg"]


def test_a_server_that_has_died_since_is_no_matter(systemd: Systemd, capsys: pytest.CaptureFixture[str]) -> None:
    systemd.answers("MainPID=0", "ExecMainStartTimestampMonotonic=5", "ConditionResult=yes")
    result = systemd.ask(capsys, nofile=MORE_THAN_ANY_KERNEL_GRANTS, on_shortfall="fail")
    assert result["pid"] == 0
    assert not result.get("failed")


@pytest.mark.parametrize(
    ("lines", "status", "says"),
    [
        (["ConditionResult=no", "Result=success", "ExecMainStartTimestampMonotonic=5"], 0, "condition no"),
        (["ConditionResult=yes", "ExecMainStartTimestampMonotonic=0"], 0, "was not started"),
        (["Access denied"], 1, "fails: Access denied"),
    ],
)
def test_a_unit_that_was_not_started(
    systemd: Systemd, capsys: pytest.CaptureFixture[str], lines: list[str], status: int, says: str
) -> None:
    systemd.answers(*lines, status=status)
    result = systemd.ask(capsys)
    assert result["failed"]
    assert says in result["msg"]


def test_what_cannot_be_asked(systemd: Systemd, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "systemd machine?" in systemd.ask(capsys, systemctl=str(tmp_path / "none"))["msg"]
    assert systemd.ask(capsys, memlock="8G")["msg"] == "The limit '8G' is neither a whole number nor infinity."
