"""The command line flags of an SGLang version, read from its source with ``ast``.

Up to about 0.5.13 every flag is an ``add_argument`` call; later ones are fields annotated ``A[type, "help"]`` or
``A[type, Arg(...)]`` (``srt/arg_groups/arg_utils.py``, ``add_cli_args_from_dataclass``), and both forms live together.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.wheels import Wheel

PLACES = ("sglang/srt/server_args.py", "sglang/srt/arg_groups/")


def flags_of(wheel: Wheel) -> frozenset[str]:
    """All flags and aliases of the launcher."""
    found = {"--help"}
    for place in PLACES:
        for name in wheel.names(place):
            found |= flags_in(wheel.read(name))
    return frozenset(found)


def flags_in(source: str) -> set[str]:
    """All flags that one source file registers."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            found.update(_words(node.args))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.update(_field_flags(node.target.id, node.annotation))
    return found


def _field_flags(name: str, annotation: ast.expr) -> Iterator[str]:
    if not (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in ("A", "Annotated")):
        return
    parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
    flag = "--" + name.replace("_", "-")
    for part in parts[1:]:
        if isinstance(part, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            yield flag
        elif isinstance(part, ast.Call) and ast.unparse(part.func) == "Arg":
            given = {keyword.arg: keyword.value for keyword in part.keywords}
            if _constant(given.get("no_cli")) is True:
                continue
            named = _constant(given.get("cli_name"))
            yield named if isinstance(named, str) else flag
            aliases = given.get("aliases")
            yield from _words(aliases.elts if isinstance(aliases, ast.List) else [])


def _words(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        value = _constant(node)
        if isinstance(value, str) and value.startswith("--"):
            yield value


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None
