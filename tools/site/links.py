"""Links between pages, as they must be on the site: the sources link to one another as files of the repository."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_LINK = re.compile(r"(?P<open>\]\()(?P<target>[^)#\s]+)(?P<rest>#[^)]*)?(?P<close>\))")
_ROLE = re.compile(r"roles/(?P<name>\w+)(?:/README\.md)?/?")


def rewritten(markdown: str, source: Path, page: str, repository: Path, address: str) -> str:
    """Return the text with links that work on the site.

    Args:
        markdown: A page.
        source: The file it comes from; its relative links start there.
        page: Where the page stands on the site, relative to ``docs``, such as ``reference/roles/nccl_env.md``.
        repository: Root of the repository.
        address: Where files of the repository that are no pages can be read.
    """

    def replace(found: re.Match[str]) -> str:
        target = found["target"]
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = os.path.relpath(os.path.normpath(source.parent / target), repository)
        role = _ROLE.fullmatch(path)
        if role:
            path = f"docs/reference/roles/{role['name']}.md"
        if path.startswith("docs/"):
            new = os.path.relpath(path.removeprefix("docs/"), os.path.dirname(page) or ".")  # noqa: PTH120 - no file
        else:
            new = f"{address}/{path}"
        return f"{found['open']}{new}{found['rest'] or ''}{found['close']}"

    return _LINK.sub(replace, markdown)
