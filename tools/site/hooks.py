"""Hooks of the site generator (``properdocs.yml``): generated pages, the site's order, and links out of ``docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # the generator loads this file by its path
    sys.path.insert(0, str(ROOT))

from properdocs.structure.files import File  # noqa: E402

from controller.collection import SEARCH_PATH  # noqa: E402
from tools.site import commands, links, modules, navigation, roles  # noqa: E402

if TYPE_CHECKING:
    from properdocs.config.defaults import ProperDocsConfig
    from properdocs.structure.files import Files
    from properdocs.structure.pages import Page

DOCS = ROOT / "docs"


def generated() -> dict[str, tuple[str, Path]]:
    """Return path below ``docs``, text and source of every page that is made from sources."""
    made = {"reference/commands.md": (commands.page(), DOCS / "reference" / "commands.md")}
    for role in sorted(path for path in (ROOT / "roles").iterdir() if (path / "README.md").is_file()):
        made[f"reference/roles/{role.name}.md"] = (roles.page(role), role / "README.md")
    for module in sorted((ROOT / "plugins" / "modules").glob("[a-z]*.py")):
        made[f"reference/modules/{module.stem}.md"] = (modules.page(module), module)
    return made


def on_config(config: ProperDocsConfig) -> ProperDocsConfig:
    """Order the site."""
    if str(SEARCH_PATH) not in sys.path:  # the generator has put back the path that it had before this file
        sys.path.insert(0, str(SEARCH_PATH))
    pages = navigation.titles(DOCS) | {path: navigation.title(text, path) for path, (text, _) in generated().items()}
    config.nav = navigation.navigation(pages)
    return config


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """Add the generated pages."""
    for path, (text, source) in generated().items():
        content = links.rewritten(text, source, path, ROOT, address(config))
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: ProperDocsConfig, **_: object) -> str:
    """Turn links to files outside ``docs`` into ones that work."""
    path = page.file.src_uri
    source = DOCS / path
    return links.rewritten(markdown, source, path, ROOT, address(config)) if source.is_file() else markdown


def address(config: ProperDocsConfig) -> str:
    """Return where the repository's files can be read."""
    return f"{(config.repo_url or '').rstrip('/')}/blob/main"
