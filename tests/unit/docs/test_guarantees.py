"""The page of guarantees: each test that it names exists, and each test of an injected fault is named."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "guarantees.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    assert name in names_in(ROOT / path)


def test_every_test_of_a_fault_is_named() -> None:
    faults = ROOT.glob("tests/integration/test_fault_*.py")
    there = {(str(path.relative_to(ROOT)), name) for path in faults for name in names_in(path)}
    assert there <= set(NAMED)


def test_every_section_has_tests_and_says_what_does_not_hold() -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:-1]
    assert len(sections) == PAGE.count("\nNot guaranteed: ") > 0
    for section in sections:
        title = section.partition("\n")[0]
        assert "\nGuaranteed" in section, title
        assert "\nNot guaranteed: " in section, title
        assert "`tests/" in section, title
