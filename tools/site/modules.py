"""The page of a module, from its own documentation."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import yaml

from tools.site.markdown import code, sentences, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

COLLECTION = "sglang_ops.eagle3"


def page(module: Path) -> str:
    """Return the Markdown of the page of a module's file."""
    texts = _texts(module)
    documentation = yaml.safe_load(texts["DOCUMENTATION"])
    parts = [f"# {COLLECTION}.{module.stem}", f"{sentences(documentation['short_description'])}."]
    parts += [sentences(line) for line in documentation.get("description", [])]
    options = _shared_options(module, documentation) | (documentation.get("options") or {})
    if options:
        parts += ["## Options", table(("option", "type", "default", "meaning"), _options(options))]
    attributes = documentation.get("attributes") or {}
    if attributes:
        rows = [
            (code(name), str(attribute.get("support", "")), sentences(attribute.get("description", "")))
            for name, attribute in attributes.items()
        ]
        parts += ["## Attributes", table(("attribute", "support", ""), rows)]
    parts += ["## Examples", f"```yaml\n{texts['EXAMPLES'].strip()}\n```"]
    results = yaml.safe_load(texts["RETURN"]) or {}
    if results:
        parts += ["## Results", table(("result", "type", "returned", "meaning"), _results(results))]
    return "\n\n".join(parts) + "\n"


def options_table(options: Mapping[str, Any]) -> str:
    """Return the options of a module or role as a table, nested ones with the name of their parent in front."""
    return table(("variable", "type", "default", "meaning"), _options(options))


def _options(options: Mapping[str, Any], parent: str = "") -> Iterator[tuple[str, str, str, str]]:
    for name, option in options.items():
        path = f"{parent}{name}"
        kind = option.get("type", "str")
        if option.get("elements"):
            kind = f"{kind} of {option['elements']}"
        if option.get("required"):
            default = "**required**"
        else:
            default = "" if option.get("default") is None else code(option["default"])
        meaning = sentences(option.get("description"))
        if option.get("choices"):
            meaning += f" One of {', '.join(code(choice) for choice in option['choices'])}."
        yield code(path), kind, default, meaning
        if isinstance(option.get("suboptions") or option.get("options"), dict):
            yield from _options(option.get("suboptions") or option["options"], f"{path}.")


def _results(results: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for name, value in results.items():
        yield code(name), value.get("type", ""), value.get("returned", ""), sentences(value.get("description"))


def _shared_options(module: Path, documentation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the documentation fragments that a module extends."""
    found: dict[str, Any] = {}
    for name in documentation.get("extends_documentation_fragment") or []:
        fragment = module.parent.parent / "doc_fragments" / f"{name.rpartition('.')[2]}.py"
        for part in ast.walk(ast.parse(fragment.read_text(encoding="utf-8"))):
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Constant):
                found |= yaml.safe_load(str(part.value.value))["options"]
    return found


def _texts(module: Path) -> dict[str, str]:
    """Return the documentation strings of a module without running it."""
    found: dict[str, str] = {}
    for statement in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = str(statement.value.value)
    return found
