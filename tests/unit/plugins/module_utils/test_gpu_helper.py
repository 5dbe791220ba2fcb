from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_helper import (
    SETTINGS,
    RequestError,
    ask_helper,
    read_request,
)

REPOSITORY = Path(__file__).parents[4]
MODULE_UTILS = REPOSITORY / "plugins" / "module_utils"
ROLE = REPOSITORY / "roles" / "zombie_cleanup"
REQUEST: dict[str, Any] = {
    "mode": "all",
    "vmid": 129,
    "check_mode": False,
    "fail_on_foreign": True,
    "allow_leak": False,
    "grace_s": 1,
    "kill_wait_s": 1.5,
    "settle_s": 2,
    "timeout_s": 3,
    "idle_mib": 512,
}
ROOTS: dict[str, Any] = dict.fromkeys(SETTINGS) | {"vmid": 129, "pct": "/usr/sbin/pct", "unit": "sglang.service"}


def test_root_decides_what_is_cleaned() -> None:
    found = read_request(json.dumps(REQUEST), ROOTS)
    assert found == {**REQUEST, **ROOTS}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pct": "/tmp/mine"}, "does not let a caller choose pct"),
        ({"unit": "ssh.service", "lock_file": "/etc/passwd"}, "choose lock_file, unit"),
        ({"vmid": 130}, "cleans container 129, not 130"),
        ({"mode": "everything"}, "mode must be one of orphans, all"),
        ({"grace_s": -1}, "grace_s must be a number from 0 to 3600"),
        ({"settle_s": float("nan")}, "settle_s must be a number"),
        ({"idle_mib": "512"}, "idle_mib must be a number"),
        ({"kill_wait_s": True}, "kill_wait_s must be a number"),
        ({"check_mode": 1}, "check_mode must be true or false"),
    ],
)
def test_a_caller_may_choose_no_more_than_mode_and_patience(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        read_request(json.dumps(REQUEST | changes), ROOTS)


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_what_is_no_request(text: str) -> None:
    with pytest.raises(RequestError, match=r"not (JSON|a JSON object)"):
        read_request(text, ROOTS)


def helper(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_the_module_asks_and_returns_the_answer() -> None:
    program = "import json, sys; print(json.dumps({'msg': 'done', 'failed': False, 'asked': json.load(sys.stdin)}))"
    answer = ask_helper(helper(program), {**REQUEST, "pct": "pct"}, check_mode=True)
    assert answer["asked"] == REQUEST | {"check_mode": True}


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (helper("import sys; sys.exit('sudo: a password is required')"), "fails: sudo: a password is required"),
        (helper("print('no json')"), "cannot be used"),
        (helper("print('[]')"), "exit status 0"),
        (["/nonexistent"], "cannot be used"),
    ],
)
def test_a_helper_that_does_not_answer(command: list[str], says: str) -> None:
    with pytest.raises(GpuError, match=says) as raised:
        ask_helper(command, REQUEST, check_mode=False)
    assert "playbooks/reap_helper.yml" in raised.value.message()


def test_all_files_that_the_helper_imports_are_installed() -> None:
    waiting, needed = ["gpu_cleaning", "gpu_helper"], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            text = (MODULE_UTILS / f"{name}.py").read_text()
            assert "import ansible." not in text
            waiting += re.findall(
                r"^\s*from ansible_collections\.[\w.]+\.module_utils\.(\w+) import", text, re.MULTILINE
            )
            assert "plugins.module_utils import" not in text
    assert sorted(needed) == yaml.safe_load((ROLE / "vars" / "main.yml").read_text())["__zombie_cleanup_helper_files"]


def test_root_decides_all_that_the_helper_lets_it_decide() -> None:
    variables = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())
    assert set(variables["__zombie_cleanup_helper_settings"]) == set(SETTINGS)
