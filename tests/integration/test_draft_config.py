"""The role draft_config through ansible-playbook on this machine."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.unit.plugins import draft_models as models

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
OVERRIDE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
KILL_BEFORE_RENAME = """
import os, pathlib, signal, sys
from ansible_collections.sglang_ops.eagle3.plugins.modules import draft_config
pathlib.Path.replace = lambda path, target: os.kill(os.getpid(), signal.SIGKILL)
options = {name: argument.get("default") for name, argument in draft_config.ARGUMENTS.items()}
draft_config.run({**options, "draft_path": sys.argv[1], "target_path": sys.argv[2]}, False)
"""


class Play:
    """One play of the role on this machine, its variables as an inventory would give them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.playbook = folder / "play.yml"
        self.playbook.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "roles": ["draft_config"]}]))
        self.variables: dict[str, Any] = {
            "sglang_server_speculative_draft_model_path": str(folder / "draft"),
            "sglang_server_model_path": str(folder / "target"),
            "sglang_server_tp_size": 8,
            "draft_config_sglang_version": "0.5.15",
        }

    def start(self, *options: str, **variables: Any) -> subprocess.Popen[str]:
        extra = json.dumps({**self.variables, **variables, "ansible_python_interpreter": sys.executable})
        return subprocess.Popen(
            [
                f"{sys.prefix}/bin/ansible-playbook",
                "-i",
                "localhost,",
                "-c",
                "local",
                self.playbook,
                "-e",
                extra,
                *options,
            ],
            cwd=REPOSITORY,
            env={**os.environ, "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *options: str, **variables: Any) -> str:
        process = self.start(*options, **variables)
        output, _ = process.communicate(timeout=120)
        return f"{output}\nrc={process.returncode}"

    def draft_files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted((self.folder / "draft").iterdir())}


@pytest.fixture
def play(tmp_path: Path) -> Play:
    models.write_draft(tmp_path / "draft")
    models.write_target(tmp_path / "target")
    return Play(tmp_path)


def test_check_patch_again_and_revert(play: Play) -> None:
    before = play.draft_files()
    output = play.run("--check", "--diff")
    assert "changed=1" in output
    assert '+    "max_position_embeddings": 262144,' in output
    assert play.draft_files() == before

    output = play.run()
    assert "changed=1" in output
    assert "wrong draft" in " ".join(output.split())
    patched = play.draft_files()
    assert patched["config.json"] == before["config.json"].replace(b"131072", b"262144")
    assert "changed=0" in play.run()
    assert play.draft_files() == patched

    assert "changed=1" in play.run(draft_config_state="reverted")
    assert play.draft_files() == before
    assert "changed=0" in play.run(draft_config_state="reverted")


def test_the_cache_layout(play: Play) -> None:
    snapshot = models.write_cached_draft(play.folder / "cache")
    blob = play.folder / "cache" / "blobs" / "c0ffee"
    before = blob.read_bytes()
    play.variables["sglang_server_speculative_draft_model_path"] = str(snapshot)
    assert "changed=1" in play.run()
    assert blob.read_bytes() == before
    assert "changed=1" in play.run(draft_config_state="reverted")
    assert (snapshot / "config.json").resolve() == blob


def test_a_run_killed_before_its_rename(play: Play) -> None:
    before = play.draft_files()
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'collections'}:{':'.join(sys.path)}"}
    command = [sys.executable, "-c", KILL_BEFORE_RENAME, str(play.folder / "draft"), str(play.folder / "target")]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    killed = play.draft_files()
    assert killed["config.json"] == before["config.json"]
    assert any(name.endswith(".tmp") for name in killed)

    assert "changed=1" in play.run()
    assert sorted(name.split(".orig-")[0] for name in play.draft_files()) == [
        "config.json",
        "config.json",
        "model.safetensors",
    ]
    play.run(draft_config_state="reverted")
    assert play.draft_files() == before


def test_two_runs_at_once(play: Play) -> None:
    before = play.draft_files()
    descriptor = os.open(play.folder / "draft", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # both runs wait here, then race
    runs = [play.start() for _ in range(2)]
    time.sleep(3)
    os.close(descriptor)
    outputs = [process.communicate(timeout=120)[0] for process in runs]
    assert sorted("changed=1" in output for output in outputs) == [False, True]
    assert [process.returncode for process in runs] == [0, 0]
    assert len(play.draft_files()) == 3
    play.run(draft_config_state="reverted")
    assert play.draft_files() == before


@pytest.mark.parametrize(
    ("strategy", "line", "setting"),
    [
        ("limit_context", "sglang_server_context_length: 131072", {"sglang_server_context_length": 131072}),
        (
            "allow_override",
            f'sglang_server_environment: {{{OVERRIDE}: "1"}}',
            {"sglang_server_environment": {OVERRIDE: "1"}},
        ),
    ],
)
def test_strategies_that_need_the_inventory(play: Play, strategy: str, line: str, setting: dict[str, Any]) -> None:
    before = play.draft_files()
    output = play.run(draft_config_strategy=strategy)
    assert "rc=2" in output
    assert line in output
    output = play.run(draft_config_strategy=strategy, **setting)
    assert "changed=0" in output
    assert "rc=0" in output
    assert play.draft_files() == before


def test_a_missing_target_is_named(play: Play) -> None:
    output = play.run(sglang_server_model_path="/no/such/model")
    assert "no such model path: /no/such/model" in " ".join(output.split())


@pytest.fixture
def read_only_draft(play: Play) -> Iterator[Path]:
    folder = play.folder / "draft"
    if os.geteuid() == 0:  # root may write whatever the mode says
        command = ["mount", "--bind", "-o", "ro", str(folder), str(folder)]
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        if mounted.returncode:
            pytest.skip(f"no bind mounts here: {mounted.stderr.strip()}")
        yield folder
        subprocess.run(["umount", str(folder)], check=True)
    else:
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)


@pytest.mark.usefixtures("read_only_draft")
def test_a_read_only_directory(play: Play) -> None:
    output = " ".join(play.run().split())
    assert "cannot write" in output
    assert ("mount it writable" if os.geteuid() == 0 else "run as a user") in output
