from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_launch_files import LaunchFiles
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_launches import parse_launch

if TYPE_CHECKING:
    from pathlib import Path

GOOD = '{"pid": 5, "session": 5, "start_ticks": 9, "boot_id": "b"}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "not a JSON object"),
        ('{"pid": true}', "pid is missing"),
        ('{"pid": -1}', "pid is missing"),
        ('{"pid": 5, "session": "5"}', "session is missing"),
        ('{"pid": 5, "session": 5, "start_ticks": 9}', "boot_id is missing"),
    ],
)
def test_a_record_that_identifies_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_launch("launch.json", text)


def test_no_directory_no_records(tmp_path: Path) -> None:
    for files in (LaunchFiles(str(tmp_path / "none")), LaunchFiles("/none", root=str(tmp_path))):
        assert files.read() == []
        files.retire()
    LaunchFiles(str(tmp_path)).retire()


def test_links_are_followed_on_the_machine_and_refused_in_a_container(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/launch.json").write_text(GOOD)
    (tmp_path / "link").symlink_to("real")
    assert len(LaunchFiles(str(tmp_path / "link")).read()) == 1
    assert len(LaunchFiles("/real", root=str(tmp_path)).read()) == 1
    with pytest.raises(GpuError, match="state directory /link cannot be opened"):
        LaunchFiles("/link", root=str(tmp_path)).read()


def test_a_pipe_is_no_record(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "launch.json")
    with pytest.raises(GpuError, match="not a regular file"):
        LaunchFiles(str(tmp_path)).read()
