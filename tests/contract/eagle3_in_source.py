"""Which model classes of an SGLang version can be the target of an EAGLE-3 draft, read from its source with ``ast``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.contract.wheels import Wheel

HOOK = "set_eagle3_layers_to_capture"
"""``srt/model_executor/model_runner.py`` calls this method of the target; a class without it cannot be one."""
PLACE = "sglang/srt/models/"


def targets_of(wheel: Wheel) -> frozenset[str]:
    """Names of the registered classes that have the hook or inherit it."""
    bases: dict[str, list[str]] = {}
    hooked: set[str] = set()
    entries: set[str] = set()
    for name in wheel.names(PLACE):
        for node in ast.parse(wheel.read(name)).body:
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, [ast.unparse(base).rpartition(".")[2] for base in node.bases])
                if any(isinstance(part, ast.FunctionDef) and part.name == HOOK for part in node.body):
                    hooked.add(node.name)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EntryClass":
                entries |= {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
    return frozenset(entry for entry in entries if _has_hook(entry, bases, hooked))


def _has_hook(name: str, bases: dict[str, list[str]], hooked: set[str]) -> bool:
    waiting, seen = [name], set[str]()
    while waiting:
        current = waiting.pop()
        if current in hooked:
            return True
        if current not in seen:
            seen.add(current)
            waiting += bases.get(current, [])
    return False
