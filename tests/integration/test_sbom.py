"""The bill of materials, made by the command itself: installs its tool into .cache/tools the first time."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from typing import TYPE_CHECKING

import controller
from tools.supply_chain import main

if TYPE_CHECKING:
    from pathlib import Path


def test_the_shape_of_the_bill(tmp_path: Path) -> None:
    path = tmp_path / "sbom.cdx.json"
    assert main(["sbom", str(path)]) == 0
    bom = json.loads(path.read_text())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    root = bom["metadata"]["component"]
    assert (root["name"], root["type"], root["version"]) == ("sglang-eagle3-ops", "application", controller.__version__)
    components = {component["name"].lower(): component for component in bom["components"]}
    assert components["ansible-core"]["version"] == version("ansible-core")
    assert {"numpy", "scipy", "pydantic_core", "markupsafe", "cryptography"} <= set(components)
    assert not {"pytest", "ruff", "mypy", "hypothesis", "cyclonedx-bom"} & set(components)
    for component in components.values():
        assert re.fullmatch(r"pkg:pypi/[a-z0-9._-]+@[^?]+", component["purl"])
    references = {component["bom-ref"] for component in components.values()} | {root["bom-ref"]}
    assert {entry["ref"] for entry in bom["dependencies"]} == references
    assert all(set(entry.get("dependsOn", [])) <= references for entry in bom["dependencies"])
