from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import controller.keys
from controller.exits import TargetError
from controller.inventory import Target
from controller.keys import Keys, read_keys


class Ansible:
    """Stands in for Playbooks: resolves to two keys, or fails."""

    ok = True
    sentence = "no vault secrets found"

    def __init__(self, target: Target) -> None:
        del target

    def run(self, playbook: str, *, directory: Path, extra_vars: dict[str, Any]) -> Ansible:
        assert playbook == "keys"
        assert directory.stat().st_mode & 0o777 == 0o700
        Path(extra_vars["keys_dest"]).write_text(json.dumps({"api_key": "resolved", "admin_api_key": ""}))
        return self


def keys(**variables: Any) -> Keys:
    return read_keys(Target(Path("inventory"), "host", variables))


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SGLANG_API_KEY", raising=False)
    monkeypatch.delenv("SGLANG_ADMIN_API_KEY", raising=False)


def test_plain_values_need_no_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(controller.keys, "Playbooks")
    assert keys() == Keys()
    assert keys(sglang_server_api_key="", sglang_server_admin_api_key="b") == Keys(None, "b")
    monkeypatch.setenv("SGLANG_API_KEY", "from the environment")
    assert keys(sglang_server_api_key="{{ vault }}") == Keys("from the environment", None)


@pytest.mark.parametrize("value", ["{{ vault }}", {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256"}])
def test_ansible_resolves_the_rest(monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    monkeypatch.setattr(controller.keys, "Playbooks", Ansible)
    assert keys(sglang_server_api_key=value) == Keys("resolved", None)
    assert keys(sglang_server_api_key=value, sglang_server_admin_api_key="plain") == Keys("resolved", "plain")
    monkeypatch.setattr(Ansible, "ok", False)
    with pytest.raises(TargetError, match="cannot be read from the inventory: no vault secrets found"):
        keys(sglang_server_api_key=value)


def test_they_are_not_shown_by_accident() -> None:
    assert "secret" not in repr(Keys("secret", "secret"))
