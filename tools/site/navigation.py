"""The order of the site: by what a reader wants to do, then by title; new pages appear by themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SECTIONS = {
    "tutorial": "Tutorial",
    "how-to": "How to",
    "reference": "Reference",
    "reference/roles": "Roles",
    "reference/modules": "Modules",
    "explanation": "Explanation",
    "runbooks": "Runbooks",
    "evidence": "Evidence",
}
"""Folders below ``docs`` in the order of the site. A folder that is not named here is a page nobody would find."""
FIRST = ("README.md", "laptop.md", "first-sweep.md", "deploy.md", "commands.md")


def navigation(pages: Mapping[str, str]) -> list[Any]:
    """Return the navigation.

    Args:
        pages: Path below ``docs`` and title of every page.

    Raises:
        ValueError: a page is in a folder that has no section.
    """
    found: dict[str, list[dict[str, str]]] = {folder: [] for folder in SECTIONS}
    for path in sorted(pages, key=lambda path: _order(path, pages[path])):
        if path == "README.md":
            continue
        folder = next((name for name in sorted(SECTIONS, reverse=True) if path.startswith(f"{name}/")), None)
        if folder is None:
            raise ValueError(f"docs/{path} is in no section of the site; name its folder in tools/site/navigation.py.")
        found[folder].append({pages[path]: path})
    sections: list[Any] = [{"Overview": "README.md"}]
    for folder, title in SECTIONS.items():
        entries: list[Any] = list(found[folder])
        if "/" not in folder:
            below = {name: text for name, text in SECTIONS.items() if name.startswith(f"{folder}/")}
            entries += [{text: found[name]} for name, text in below.items() if found[name]]
            sections.append({title: entries})
    return sections


def title(markdown: str, path: str) -> str:
    """Return the title of a page: its first heading."""
    found = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    return found[1].replace("`", "") if found else path


def titles(docs: Path) -> dict[str, str]:
    """Return path and title of every page in a folder."""
    return {
        str(path.relative_to(docs)): title(path.read_text(encoding="utf-8"), path.name) for path in docs.rglob("*.md")
    }


def _order(path: str, text: str) -> tuple[int, str]:
    name = path.rpartition("/")[2]
    return (FIRST.index(name) if name in FIRST else len(FIRST), text.lower())
