"""A command outlives the call that starts it; another call waits for it and packs what there is."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

GPU = Path(__file__).parents[2] / "gpu"


def poll(out: Path, pack: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(GPU / "poll.sh"), str(out), words[0], str(pack), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_command_is_started_waited_for_and_packed(tmp_path: Path) -> None:
    out, pack, gate = tmp_path / "out", tmp_path / "pack", tmp_path / "gate"
    script = 'echo "first words"; touch "$1/CHAPTER"; until [ -e "$2" ]; do sleep 0.1; done; exit 3'
    start = ["bash", str(GPU / "in_background.sh"), str(out), "bash", "-c", script, "script", str(out), str(gate)]
    assert "started as process" in subprocess.run(start, capture_output=True, text=True, timeout=20, check=True).stdout
    try:
        assert poll(out, pack, "20", "CHAPTER").returncode == 75  # it runs on
    finally:
        gate.touch()
    ended = poll(out, pack, "20")
    assert (ended.returncode, ended.stdout) == (3, "first words\n")
    with tarfile.open(pack / "out.tgz") as archive:
        assert {"./background.log", "./CHAPTER", "./DONE"} <= set(archive.getnames())
