from __future__ import annotations

import pytest
from ansible.module_utils import _internal


@pytest.fixture(autouse=True)
def _on_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep warnings in the module's result: a test of an action plugin has made this process Ansible's controller."""
    monkeypatch.setattr(_internal, "is_controller", False)
