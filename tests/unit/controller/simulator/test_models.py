import json
import struct
from pathlib import Path

import pytest

from controller.simulator.models import write_draft, write_target
from controller.simulator.site.sglang.shards import progress_lines, weight_files


def header(path: Path) -> dict[str, dict[str, object]]:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        read: dict[str, dict[str, object]] = json.loads(file.read(length))
    read.pop("__metadata__")
    ends = [int(tensor["data_offsets"][1]) for tensor in read.values()]  # type: ignore[index]
    assert path.stat().st_size == 8 + length + max(ends)
    return read


def test_the_draft_has_the_real_layout_and_takes_no_space(tmp_path: Path) -> None:
    write_draft(tmp_path)
    text = (tmp_path / "config.json").read_text()
    assert text.startswith('{\n    "architectures"')
    assert text.endswith("}\n")
    tensors = header(tmp_path / "model.safetensors")
    assert tensors["fc.weight"]["shape"] == [7168, 21504]
    assert tensors["lm_head.weight"]["shape"] == [32000, 7168]
    assert (tensors["d2t"]["dtype"], tensors["d2t"]["shape"]) == ("I64", [32000])
    assert (tensors["t2d"]["dtype"], tensors["t2d"]["shape"]) == ("BOOL", [163840])
    assert (tmp_path / "model.safetensors").stat().st_blocks * 512 < 1 << 20


def test_the_target_has_64_shards(tmp_path: Path) -> None:
    write_target(tmp_path)
    files = weight_files(str(tmp_path))
    assert len(files) == 64
    assert files[0] == "model-00001-of-000064.safetensors"
    for file in files:
        header(tmp_path / file)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_target(tmp_path)
    (tmp_path / "model-00017-of-000064.safetensors").unlink()
    with pytest.raises(RuntimeError, match=r"references 1 shard file\(s\) missing .*00017"):
        weight_files(str(tmp_path))


def test_no_weights_at_all(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Cannot find any model weights"):
        weight_files(str(tmp_path))


def test_progress_is_a_bar_that_overwrites_itself() -> None:
    lines = [text for _, text in progress_lines(4, 120.0)]
    assert lines[0] == "\rMulti-thread loading shards:   0% Completed | 0/4 [00:00<?, ?it/s]"
    assert lines[1].startswith("\rMulti-thread loading shards:  25% Completed | 1/4 [00:30<01:30,")
    assert lines[-1].endswith("\n")
    assert "100% Completed | 4/4 [02:00<00:00" in lines[-1]
