"""The runbooks: one page for each class and each outcome of cleaning, whole, and quoting what the classifier knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import CLASSES, runbook
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_signatures import SIGNATURES
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_runbooks import RUNBOOKS

ROOT = Path(__file__).resolve().parents[3]
HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation", "Verify", "If that fails"]
TEXT_BLOCK = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = sorted({*(runbook(name) for name in CLASSES), *RUNBOOKS.values()})
QUOTES = [
    (name, line)
    for name in CLASSES
    for block in TEXT_BLOCK.findall((ROOT / runbook(name)).read_text(encoding="utf-8"))
    for line in block.splitlines()
]


@pytest.mark.parametrize("page", PAGES)
def test_page_has_every_heading_in_order(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert text.startswith("# ")


@pytest.mark.parametrize(("failure_class", "line"), QUOTES, ids=lambda value: str(value)[:50])
def test_quoted_message_is_a_sign_of_the_class(failure_class: str, line: str) -> None:
    signs = [signature for signature in SIGNATURES if signature.failure_class == failure_class]
    assert any(signature.pattern.search(line) for signature in signs)


@pytest.mark.parametrize("failure_class", CLASSES)
def test_page_names_a_command_of_ours(failure_class: str) -> None:
    commands = CONSOLE_BLOCK.findall((ROOT / runbook(failure_class)).read_text(encoding="utf-8"))
    assert any("python -m controller" in block or "ansible-playbook" in block for block in commands)


def test_every_class_with_signatures_quotes_a_message() -> None:
    assert {signature.failure_class for signature in SIGNATURES} <= {name for name, _ in QUOTES}


def test_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "runbooks" / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", index))
    assert {Path(page).name for page in PAGES} <= linked
