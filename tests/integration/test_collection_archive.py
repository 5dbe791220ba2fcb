"""The collection as an archive: what is in it, and that it works where it is installed, without the checkout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from controller.simulator import create_node
from tests.integration.simulated_node import free_port, recap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.simulator import Node

REPOSITORY = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
TOP = {"CHANGELOG.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "meta", "playbooks", "plugins", "roles"}
LARGEST = 1_000_000
"""Bytes; the code is a quarter of it."""


class Collection:
    """The archive, installed into an empty directory; Ansible sees neither the checkout nor its configuration."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "ansible.cfg").write_text("[defaults]\n")
        self.run("ansible-galaxy", "collection", "build", "--output-path", str(root / "dist"), str(REPOSITORY))
        (self.archive,) = (root / "dist").glob("*.tar.gz")
        target = ("--offline", "-p", str(root / "installed"), str(self.archive))
        self.run("ansible-galaxy", "collection", "install", *target)

    def run(self, program: str, *words: str, **more: str) -> str:
        """Run one of Ansible's programs in an empty directory and return what it printed."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "ANSIBLE_CONFIG": str(self.root / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.root / "installed"),
            "ANSIBLE_NOCOLOR": "1",
            "HOME": str(self.root),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            **more,
        }
        done = subprocess.run(
            [BIN / program, *words],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return Collection(tmp_path_factory.mktemp("collection"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    one = create_node(tmp_path / "node", "fast", gpus=2)
    yield one
    for process in one.processes():
        os.kill(process.pid, signal.SIGKILL)


def test_the_archive_has_roles_modules_and_playbooks_and_no_more(collection: Collection) -> None:
    with tarfile.open(collection.archive) as packed:
        members = packed.getmembers()
    files = {member.name for member in members if member.isfile()}
    assert {member.name.split("/")[0] for member in members} == TOP
    assert not [member.name for member in members if member.issym() or member.islnk()]
    assert not [name for name in files if "__pycache__" in name or name.endswith(".pyc")]
    for folder in ("roles", "playbooks", "plugins"):
        paths = (path for path in (REPOSITORY / folder).rglob("*") if path.is_file() and path.suffix != ".pyc")
        here = {str(path.relative_to(REPOSITORY)) for path in paths}
        assert here
        assert here <= files
    assert collection.archive.stat().st_size < LARGEST


def test_every_module_and_role_is_documented(collection: Collection) -> None:
    modules = sorted(f"sglang_ops.eagle3.{path.stem}" for path in (REPOSITORY / "plugins" / "modules").glob("*.py"))
    found = json.loads(collection.run("ansible-doc", "--json", "-t", "module", *modules))
    assert sorted(found) == modules
    for name, page in found.items():
        assert page["doc"]["short_description"], name
        assert page["examples"], name
        assert page["return"], name
        undocumented = [option for option, spec in page["doc"].get("options", {}).items() if not spec["description"]]
        assert not undocumented, name

    roles = sorted(path.name for path in (REPOSITORY / "roles").iterdir() if path.is_dir())
    names = [f"sglang_ops.eagle3.{name}" for name in roles]
    found = json.loads(collection.run("ansible-doc", "--json", "-t", "role", *names))
    assert sorted(found) == names
    for name in roles:
        options = found[f"sglang_ops.eagle3.{name}"]["entry_points"]["main"]["options"]
        defaults = yaml.safe_load((REPOSITORY / "roles" / name / "defaults" / "main.yml").read_text())
        assert set(options) == set(defaults)


def test_every_playbook_is_found_by_its_name(collection: Collection) -> None:
    names = [f"sglang_ops.eagle3.{path.stem}" for path in sorted((REPOSITORY / "playbooks").glob("*.yml"))]
    printed = collection.run("ansible-playbook", "--syntax-check", "-i", "localhost,", *names)
    assert printed.count("playbook: ") == len(names)


def test_the_installed_collection_deploys(collection: Collection, node: Node) -> None:
    words = ("-i", str(REPOSITORY / "inventory" / "simulator"), "-e")
    extra = json.dumps({"sglang_server_port": free_port(), "sglang_server_tp_size": 2})
    where = {"CONTROLLER_SIMULATOR_NODE": str(node.path)}
    printed = collection.run("ansible-playbook", "sglang_ops.eagle3.deploy", *words, extra, "-v", **where)
    assert recap(printed)["failed"] == 0
    assert "running playbook inside collection sglang_ops.eagle3" in printed
    assert any("scheduler" in process.name for process in node.processes())
