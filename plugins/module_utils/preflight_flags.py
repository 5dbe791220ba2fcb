"""Which flags an SGLang release knows, and which targets it can draft for (pure)."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional, Set

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import Version, parse_version
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_release_data import RELEASES

RENAMED = {
    "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode",
    "--cuda-graph-bs": "--cuda-graph-bs-decode",
}
"""Old name -> new name, both ways usable: 0.5.14 to 0.5.19 know both, earlier ones the old, later ones the new."""


def known_flags(version: str) -> Optional[FrozenSet[str]]:
    """All flags of a release; None when this file knows no release of these three numbers."""
    wanted = _release_for(version)
    if wanted is None:
        return None
    flags: Set[str] = set()
    for release in RELEASES:
        flags |= set(release.flags_added.split())
        flags -= set(release.flags_removed.split())
        if release.version == wanted:
            break
    return frozenset(flags)


def eagle3_target_since(architecture: str) -> Optional[str]:
    """The first release that can draft for a target class; None when none known here can."""
    for release in RELEASES:
        if architecture in release.eagle3_targets_added.split():
            return release.version
    return None


def newest_release() -> Version:
    """The newest release that the data speaks of."""
    return parse_version(RELEASES[-1].version) or ()


def problem_with(flag: str, flags: FrozenSet[str]) -> str:
    """Why argparse would refuse a flag, empty when it takes it. It takes unique beginnings too."""
    if flag in flags:
        return ""
    longer = sorted(name for name in flags if name.startswith(flag))
    if len(longer) == 1:
        return ""
    translated = translation(flag, flags)
    advice = f"; this version calls it {translated}" if translated else ""
    if longer:
        return f"{flag} is ambiguous ({', '.join(longer)}){advice}"
    return f"{flag} is not known{advice}"


def translation(flag: str, flags: FrozenSet[str]) -> str:
    """What this version calls a flag that was renamed; empty when it was not."""
    names: Dict[str, str] = {**RENAMED, **{new: old for old, new in RENAMED.items()}}
    other = names.get(flag, "")
    return other if other in flags else ""


def parse_help(text: str) -> FrozenSet[str]:
    """The flags in argparse's help: lines that begin with two blanks and a dash."""
    found: List[str] = []
    for line in text.splitlines():
        if line.startswith("  -"):
            words = line.split("   ")[0].replace(",", " ").split()
            found += [word for word in words if word.startswith("--")]
    return frozenset(found)


def _release_for(version: str) -> Optional[str]:
    names = [release.version for release in RELEASES]
    plain = version.partition("+")[0]
    if plain in names:
        return plain
    numbers = parse_version(version)
    same = [name for name in names if numbers is not None and parse_version(name) == numbers]
    return same[-1] if same else None
