from __future__ import annotations

from typing import Any

import pytest

from tools.supply_chain import FOUND, OK, UNKNOWN, ToolError, judge, needs_of, runtime_only


def test_development_tools_are_no_part_of_an_installation() -> None:
    whole: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "metadata": {"component": {"bom-ref": "root", "name": "us"}},
        "components": [{"name": name, "bom-ref": f"{name}==1"} for name in ("Jinja2", "MarkupSafe", "pytest")],
        "dependencies": [],
    }
    found = runtime_only(whole, ["jinja2"], {"jinja2": ["markupsafe"], "markupsafe": []})
    assert [component["name"] for component in found["components"]] == ["Jinja2", "MarkupSafe"]
    assert found["dependencies"] == [
        {"ref": "Jinja2==1", "dependsOn": ["MarkupSafe==1"]},
        {"ref": "MarkupSafe==1", "dependsOn": []},
        {"ref": "root", "dependsOn": ["Jinja2==1"]},
    ]


def test_what_packages_need_here_without_extras() -> None:
    needs = needs_of(["jinja2", "httpx"])
    assert needs["jinja2"] == ["markupsafe"]
    assert "certifi" in needs["httpx"]
    assert "h2" not in needs, "an extra of httpx"
    with pytest.raises(ToolError, match="no-such-package is not installed here"):
        needs_of(["no-such-package"])


def test_an_audit_that_could_ask_nobody_is_no_clean_bill() -> None:
    clean = {"name": "a", "version": "1", "vulns": []}
    skipped = {"name": "b", "skip_reason": "not found"}
    bad = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
    assert judge([clean, skipped]) == (OK, "1 packages: nothing known; 1 could not be asked about\n")
    assert judge([clean, bad]) == (FOUND, "c 2: PYSEC-1 (fixed in: 3)\n")
    assert judge([skipped])[0] == UNKNOWN
