"""The page of a role: what its README says, then every variable from its argument specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from tools.site.markdown import sentences
from tools.site.modules import options_table

if TYPE_CHECKING:
    from pathlib import Path


def page(role: Path) -> str:
    """Return the Markdown of the page of a role's folder; links are those of the README."""
    specification = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    parts = [(role / "README.md").read_text(encoding="utf-8").strip(), "## Argument specification"]
    for name, entry in specification["argument_specs"].items():
        if name != "main":
            parts.append(f"### Entry point {name}")
        parts.append(sentences(entry.get("description") or entry.get("short_description", "")))
        parts.append(options_table(entry.get("options") or {}))
    return "\n\n".join(parts) + "\n"
