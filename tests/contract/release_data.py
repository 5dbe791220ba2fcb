"""Writes ``plugins/module_utils/preflight_release_data.py``: what each release added and removed."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.eagle3_in_source import targets_of
from tests.contract.flags_in_source import flags_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.contract.wheels import Wheel

DESTINATION = Path(__file__).parents[2] / "plugins" / "module_utils" / "preflight_release_data.py"
HEAD = '''"""Flags and possible EAGLE-3 targets of each SGLang release, as changes from one release to the next.

Generated from the sources in SGLang's wheels by ``python -m tests.contract data``; do not edit. Pure data.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple


class Release(NamedTuple):
    """One release: words separated by white space, relative to the release before."""

    version: str
    flags_added: str
    flags_removed: str
    eagle3_targets_added: str


RELEASES: Tuple[Release, ...] = (
'''


def render(wheels: Iterable[Wheel]) -> str:
    """The text of the data module for wheels in order of their versions."""
    flags, targets = frozenset[str](), frozenset[str]()
    parts = [HEAD]
    for wheel in wheels:
        new_flags, new_targets = flags_of(wheel), targets_of(wheel)
        lost = targets - new_targets
        if lost:
            raise ValueError(f"{wheel.version} lost the EAGLE-3 targets {sorted(lost)}: the data must learn to say so.")
        values = (new_flags - flags, flags - new_flags, new_targets - targets)
        parts += [f'    Release(\n        "{wheel.version}",\n', *map(_literal, values), "    ),\n"]
        flags, targets = new_flags, new_targets
    return "".join([*parts, ")\n"])


def _literal(words: Iterable[str]) -> str:
    return "".join(_lines(sorted(words)))


def _lines(words: list[str]) -> Iterator[str]:
    one = " ".join(words)
    if len(one) <= 100:
        yield f'        "{one}",\n'
        return
    yield '        """\n'
    for line in textwrap.wrap(one, width=108, break_long_words=False, break_on_hyphens=False):
        yield f"        {line}\n"
    yield '        """,\n'
