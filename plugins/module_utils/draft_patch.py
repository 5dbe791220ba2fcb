"""Raise the context length in a draft's config.json, keep the first original beside it, and put it back.

The backup is `config.json.orig-<first 8 digits of its SHA-256>`. In a Hugging Face cache config.json is a link
into a blob that other snapshots share; there the link is replaced by a regular file, and the backup is the link itself.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.atomic_file import keep_copy, move_over, replace_file
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import (
    CONTEXT_LENGTH_KEYS,
    Rules,
    derive_context_length,
    text_config_path,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.json_edit import (
    JsonDocument,
    JsonEditError,
    KeyPath,
    lookup,
)

if TYPE_CHECKING:
    from pathlib import Path

_BACKUP_INFIX = ".orig-"
_HASH_DIGITS = 8


class DraftPatchError(Exception):
    """The file cannot be patched or restored; the message is one sentence."""


@dataclass(frozen=True)
class Backup:
    """A kept original and its bytes."""

    path: Path
    data: bytes


def raise_context_length(document: JsonDocument, needed: int, rules: Tuple[Rules, ...]) -> JsonDocument:
    """A copy whose derived context length is at least `needed` tokens under each of the rules.

    The key that decides is raised, and max_position_embeddings beside it when it is lower, because SGLang sizes the
    rotary table by it.

    Raises:
        DraftPatchError: no key of the file decides, so that there is no value to change.
    """
    edits: Dict[KeyPath, int] = {}
    for rule in rules:
        derived = derive_context_length(document.value, rule)
        if derived.length >= needed:
            continue
        if derived.path is None or derived.factor <= 0:
            raise DraftPatchError(
                f"has none of {', '.join(CONTEXT_LENGTH_KEYS)} to raise (SGLang falls back to {derived.length}): "
                "add max_position_embeddings as its training had it."
            )
        value = max(math.ceil(needed / derived.factor), edits.get(derived.path, 0))
        edits[derived.path] = value
        positions = (*derived.path[:-1], "max_position_embeddings")
        current = lookup(document.value, positions)
        if isinstance(current, int) and current < value:
            edits[positions] = value
    return document.replace(edits) if edits else document


def changed_values(before: JsonDocument, after: JsonDocument) -> Dict[str, Tuple[Any, Any]]:
    """Context length values that differ, as {dotted key: (before, after)}."""
    return {
        ".".join(path): (lookup(before.value, path), lookup(after.value, path))
        for path in _context_paths(before)
        if lookup(before.value, path) != lookup(after.value, path)
    }


def backup_path(config: Path, data: bytes) -> Path:
    """Where the original with these bytes is kept."""
    return config.with_name(f"{config.name}{_BACKUP_INFIX}{_hash(data)}")


def find_backup(config: Path, current: JsonDocument) -> Optional[Backup]:
    """The kept original from which the current file follows by changing context lengths alone; None when there is none.

    Raises:
        DraftPatchError: a kept original is damaged or cannot be read.
    """
    backups = [_read_backup(path) for path in _backup_paths(config)]
    for backup in backups:
        if _follows(current, JsonDocument.parse(backup.data)):
            return backup
    return None


def stale_backups(config: Path, used: Optional[Backup]) -> List[str]:
    """Kept originals that belong to another file than the one which is there now."""
    return [str(path) for path in _backup_paths(config) if used is None or path != used.path]


def write_patched(config: Path, original: bytes, patched: bytes, backup: Optional[Backup]) -> Path:
    """Keep the original unless it is kept already, then put the patched bytes in its place; returns the backup's path.

    Raises:
        FileWriteError: the directory cannot be written.
    """
    path = backup.path if backup else backup_path(config, original)
    if backup is None:
        keep_copy(config, path)
    replace_file(config, patched)
    return path


def restore(config: Path, backup: Backup) -> None:
    """Put the original back under its name, which also removes the backup.

    Raises:
        DraftPatchError: what was put back has other bytes than the backup had.
        FileWriteError: the directory cannot be written.
    """
    move_over(backup.path, config)
    if config.read_bytes() != backup.data:
        raise DraftPatchError(f"{config} has other bytes than its backup had: another program is writing there.")


def _backup_paths(config: Path) -> List[Path]:
    digits = "[0-9a-f]" * _HASH_DIGITS
    return sorted(config.parent.glob(f"{config.name}{_BACKUP_INFIX}{digits}"))


def _read_backup(path: Path) -> Backup:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DraftPatchError(
            f"cannot read the backup {path}: {error.strerror} (is its blob still in the cache?)."
        ) from error
    if not path.name.endswith(_hash(data)):
        raise DraftPatchError(
            f"{path} is damaged: its bytes do not have the hash in its name. Fetch the draft again and remove it."
        )
    return Backup(path, data)


def _follows(current: JsonDocument, original: JsonDocument) -> bool:
    """Whether `current` is `original` with other context lengths and nothing else changed."""
    paths = [path for path in _context_paths(original) if lookup(original.value, path) != lookup(current.value, path)]
    try:
        rebuilt = original.replace({path: lookup(current.value, path) for path in paths})
    except JsonEditError:
        return False
    return rebuilt.to_bytes() == current.to_bytes()


def _context_paths(document: JsonDocument) -> List[KeyPath]:
    """Every place where either set of rules may look for a length."""
    parents = {text_config_path(document.value, rule) for rule in Rules}
    return [
        (*parent, key)
        for parent in sorted(parents)
        for key in CONTEXT_LENGTH_KEYS
        if lookup(document.value, (*parent, key)) is not None
    ]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_HASH_DIGITS]
