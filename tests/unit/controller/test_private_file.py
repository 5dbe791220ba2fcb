from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.private_file import write_private

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_replaced_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "grün")
    assert path.read_bytes() == "grün".encode()
    assert path.stat().st_mode & 0o777 == 0o600
    write_private(path, b"\0")
    assert path.read_bytes() == b"\0"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    (path / "kept").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write_private(path, "new")
    assert list(tmp_path.iterdir()) == [path]
    assert (path / "kept").is_dir()


def test_what_a_killed_writer_left_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".plan.json.new").write_text("much more than what is written now")
    write_private(tmp_path / "plan.json", "new")
    assert (tmp_path / "plan.json").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 1
