"""A command outlives the call that starts it, another waits for it and packs what there is; nothing waits in vain."""

from __future__ import annotations

import os
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


def test_a_bundle_that_does_not_arrive_ends_the_preparation(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    command = ["bash", str(GPU / "prepare.sh"), str(tmp_path / "bundle"), str(tmp_path / "root")]
    environment = os.environ | {"PARTS": "2", "ARRIVAL_S": "0"}
    environment.pop("TRAIN_OPTIONS", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert f"{tmp_path}/bundle/part1 has not arrived within 0 s" in done.stderr


def test_pieces_of_a_bundle_arrive_whole(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "one.whl").touch()
    (tmp_path / "part1").write_text("piece")
    bundle = tmp_path / "bundle"
    command = ["bash", str(GPU / "arrive.sh"), str(tmp_path / "part1"), str(tmp_path / "wheels"), str(bundle)]
    for _ in range(2):  # again changes nothing
        subprocess.run(command, timeout=20, check=True)
        assert sorted(path.relative_to(bundle).as_posix() for path in bundle.rglob("*")) == [
            "part1",
            "wheels",
            "wheels/one.whl",
        ]
