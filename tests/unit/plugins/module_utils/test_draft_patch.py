from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import Rules, derive_context_length
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.draft_patch import (
    Backup,
    DraftPatchError,
    backup_path,
    changed_values,
    find_backup,
    raise_context_length,
    restore,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.json_edit import JsonDocument

if TYPE_CHECKING:
    from pathlib import Path

BOTH = tuple(Rules)


def document(value: dict[str, Any]) -> JsonDocument:
    return JsonDocument.parse(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_position_embeddings": 100}, {"max_position_embeddings": 1000}),
        (
            {"model_max_length": 50, "max_position_embeddings": 100},
            {"model_max_length": 1000, "max_position_embeddings": 1000},
        ),
        ({"model_max_length": 50, "max_position_embeddings": 2000}, {"model_max_length": 1000}),
        (
            {"max_position_embeddings": 300, "rope_scaling": {"type": "linear", "factor": 3}},
            {"max_position_embeddings": 334},
        ),
        (
            {"max_position_embeddings": 300, "rope_scaling": {"type": "yarn", "factor": 4}},
            {"max_position_embeddings": 1000},
        ),
        ({"max_position_embeddings": 1000}, {}),
    ],
)
def test_raised_values(config: dict[str, Any], expected: dict[str, int]) -> None:
    before = document(config)
    after = raise_context_length(before, 1000, BOTH)
    assert {key: new for key, (_, new) in changed_values(before, after).items()} == expected
    assert all(derive_context_length(after.value, rule).length >= 1000 for rule in BOTH)


def test_both_text_configs_are_raised_when_the_version_is_unknown() -> None:
    before = document({"text_config": {"seq_length": 1}, "thinker_config": {"seq_length": 2}})
    after = raise_context_length(before, 9, BOTH)
    assert set(changed_values(before, after)) == {"text_config.seq_length", "thinker_config.seq_length"}


def test_nothing_to_raise_is_refused() -> None:
    with pytest.raises(DraftPatchError, match="add max_position_embeddings"):
        raise_context_length(document({"hidden_size": 1}), 4096, BOTH)


def test_backups_are_found_by_what_follows_from_them(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    original = document({"max_position_embeddings": 1, "hidden_size": 2})
    other = document({"max_position_embeddings": 1})
    for kept in (original, other):
        backup_path(config, kept.to_bytes()).write_bytes(kept.to_bytes())
    found = find_backup(config, raise_context_length(original, 5, BOTH))
    assert found is not None
    assert found.data == original.to_bytes()
    assert find_backup(config, document({"max_position_embeddings": 5, "hidden_size": 3})) is None
    assert find_backup(config, document({"hidden_size": 2})) is None


def test_a_damaged_or_dangling_backup_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    backup_path(config, b"{}").write_bytes(b"{ }")
    with pytest.raises(DraftPatchError, match="damaged"):
        find_backup(config, document({}))
    backup_path(config, b"{}").unlink()
    backup_path(config, b"{}").symlink_to("gone")
    with pytest.raises(DraftPatchError, match="is its blob still in the cache"):
        find_backup(config, document({}))


def test_restore_verifies_the_bytes(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.write_bytes(b"{ }")
    with pytest.raises(DraftPatchError, match="another program"):
        restore(tmp_path / "config.json", Backup(backup, b"{}"))
