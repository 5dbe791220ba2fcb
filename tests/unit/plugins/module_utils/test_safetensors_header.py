from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.safetensors_header import (
    HeaderError,
    read_checkpoint,
    read_shapes,
)

from tests.unit.plugins.draft_models import safetensors

if TYPE_CHECKING:
    from pathlib import Path


def test_shapes_of_a_sharded_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(safetensors({"fc.weight": (2, 6)}))
    index = {"weight_map": {"fc.weight": "a.safetensors", "d2t": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.shapes == {"fc.weight": (2, 6)}
    assert checkpoint.missing_files == ["b.safetensors"]
    assert checkpoint.has_weights


def test_pickles_and_nothing(tmp_path: Path) -> None:
    assert not read_checkpoint(tmp_path).has_weights
    (tmp_path / "pytorch_model.bin").touch()
    assert read_checkpoint(tmp_path).has_pickle_only


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "not a safetensors file"),
        (b"", "not a safetensors file"),
        (struct.pack("<Q", 2) + b"{]", "damaged safetensors header"),
        (struct.pack("<Q", 9) + b'{"a": []}', "damaged safetensors header"),
        (struct.pack("<Q", 2) + b"[]", "damaged safetensors header"),
        (safetensors({"fc.weight": (2, 6)})[:-1], "cut short"),
    ],
)
def test_damaged_files(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(HeaderError, match=sentence):
        read_shapes(path)


def test_unreadable_file_and_index(tmp_path: Path) -> None:
    with pytest.raises(HeaderError, match="cannot read"):
        read_shapes(tmp_path / "missing.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(HeaderError, match="not a safetensors index"):
        read_checkpoint(tmp_path)
