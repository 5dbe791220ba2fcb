"""``pip install`` of the wheel gives a controller that needs no checkout; the source archive gives the same wheel."""

from __future__ import annotations

import json
import os
import signal
import tarfile
from typing import TYPE_CHECKING

import pytest

from controller.simulator import Node
from tests.integration.installed import REPOSITORY, Installed, build, names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGEST_WHEEL = 2_000_000
"""Bytes. Far more than playbooks, roles and code need; less than one stray recording."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Iterator[Installed]:
    one = Installed.create(tmp_path_factory.mktemp("installed"), wheel)
    yield one
    node = one.home / ".local" / "state" / "sglang-eagle3-ops" / "simulator" / "node"
    for process in Node.load(node).processes() if node.exists() else []:
        os.kill(process.pid, signal.SIGKILL)


def test_the_wheel_has_what_a_sweep_needs_and_no_more(wheel: Path) -> None:
    found = names(wheel)
    inside = "controller/_collection"
    collection = f"{inside}/collections/ansible_collections/sglang_ops/eagle3"
    for name in (
        f"{inside}/ansible.cfg",
        f"{inside}/playbooks/restart.yml",
        f"{inside}/roles/sglang_server/templates/sglang.service.j2",
        f"{inside}/inventory/simulator/hosts.yml",
        f"{inside}/plans/nccl-default.yml",
        f"{inside}/docs/runbooks/draft-context.md",
        f"{collection}/plugins/modules/sglang_health.py",
        "controller/simulator/site/sglang/data/flags.json",
        "controller/report/templates/report.css",
    ):
        assert name in found
    assert {name.split("/")[0].split("-")[0] for name in found} == {"controller", "sglang_eagle3_ops"}
    assert not [name for name in found if "__pycache__" in name or name.endswith(".pyc")]
    for folder in ("roles", "playbooks"):
        here = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / folder).rglob("*.yml")}
        assert (
            here == {name.removeprefix(f"{inside}/") for name in found if name.startswith(f"{inside}/{folder}/")} & here
        )
    assert wheel.stat().st_size < LARGEST_WHEEL


def test_the_source_archive_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    archive = build("sdist", tmp_path / "sdist")
    with tarfile.open(archive) as packed:
        members = packed.getmembers()
        inside = {member.name.partition("/")[2] for member in members}
        packed.extractall(tmp_path / "unpacked", filter="data")
    assert not [
        name for name in inside if name.startswith(("collections/", ".venv/", ".git/", ".gpu/", "docs/evidence/2"))
    ]
    (source,) = (tmp_path / "unpacked").iterdir()
    assert names(build("wheel", tmp_path / "again", source)) == names(wheel)


def test_the_installed_controller_sweeps_without_a_checkout(installed: Installed) -> None:
    version = installed.run("controller", "--version")
    assert version.returncode == 0, version.stderr
    assert installed.run("python", "-m", "controller", "--version").stdout == version.stdout

    node = ".local/state/sglang-eagle3-ops/simulator/node"
    made = installed.run("controller", "simulator", "create", node, "--profile", "fast")
    assert made.returncode == 0, made.stderr
    small = ("--no-baseline", "--blocks", "1", "--output-tokens", "16", "--prompts-per-run", "2", "--json")
    done = installed.run("controller", "sweep", "--steps", "2,3", *small)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [cell["state"] for cell in result["cells"]] == ["done"] * 2
    assert result["simulated"] is True
    assert (installed.home / "sweeps").is_dir()
    assert str(REPOSITORY) not in done.stdout + done.stderr

    plan = installed.run("controller", "plan", "--arms-file", "nccl-default")
    assert "NCCL_PROTO" in plan.stdout
    assert str(installed.site_packages / "controller" / "_collection") in plan.stdout
    log = installed.home / "server.log"
    log.write_text("Traceback\ntorch.OutOfMemoryError: CUDA out of memory.\n")
    assert installed.run("controller", "diagnose", "server.log").returncode in (0, 1)
