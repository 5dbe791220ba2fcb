"""Cleaning through sudo: a user whose only right is the helper ends the server's processes, and can do nothing else.

The helper is installed by the role into this machine (as root) and taken away again.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.simulated_node import REPOSITORY, SimulatedNode

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = "sglang-reap-test"
HELPER = Path("/usr/local/sbin/sglang-gpu-reap")
INSTALLED = (HELPER, Path("/etc/sglang-gpu-reap.json"), Path("/etc/sudoers.d", USER))
PYTHON = "/usr/bin/python3"


def missing() -> str:
    if os.geteuid() != 0:
        return "installing the helper needs root"
    if shutil.which("sudo") is None or not Path(PYTHON).exists():
        return "needs Debian's sudo and python3"
    return "the helper is in use on this machine" if HELPER.exists() else ""


pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(missing()), reason=missing() or "-"),
]


def play(node: SimulatedNode, playbook: Path, **variables: Any) -> subprocess.CompletedProcess[str]:
    extra = {"zombie_cleanup_helper_user": USER, "ansible_python_interpreter": PYTHON, **variables}
    return node.play(str(playbook), extra)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedNode]:
    assert not missing(), missing()
    made = SimulatedNode(tmp_path_factory.mktemp("helper") / "node")
    try:
        installed = play(made, REPOSITORY / "playbooks" / "reap_helper.yml")
        assert installed.returncode == 0, installed.stdout + installed.stderr
        yield made
    finally:
        if made.processes():
            made.stop()
        subprocess.run(["userdel", "--remove", USER], capture_output=True, check=False)
        for path in INSTALLED:
            path.unlink(missing_ok=True)


def as_user(*command: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["setpriv", f"--reuid={USER}", f"--regid={pwd.getpwnam(USER).pw_gid}", "--clear-groups", *command],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": "/tmp"},
    )


@pytest.mark.usefixtures("node")
def test_nothing_but_the_helper_is_allowed() -> None:
    assert as_user("sudo", "-n", "/usr/bin/id").returncode != 0
    assert as_user("sudo", "-n", PYTHON, "-c", "print(1)").returncode != 0
    assert as_user("sudo", "-n", str(HELPER), "--mode", "all").returncode != 0
    refused = as_user("sudo", "-n", str(HELPER), text=json.dumps({"mode": "all", "pct": "/tmp/evil"}))
    assert (refused.returncode, refused.stderr) == (2, "The helper does not let a caller choose pct.\n")
    for path in INSTALLED:
        status = path.stat()
        assert status.st_uid == 0, path
        assert status.st_mode & 0o022 == 0, path


def test_the_role_cleans_through_it(node: SimulatedNode, tmp_path: Path) -> None:
    deployed = node.play("deploy.yml", {"sglang_server_speculative": False}, "--tags", "sglang_server,sglang_health")
    assert deployed.returncode == 0, deployed.stdout
    playbook = tmp_path / "clean.yml"
    playbook.write_text(
        json.dumps(
            [
                {
                    "hosts": "inference",
                    "gather_facts": False,
                    "become": True,
                    "become_user": USER,
                    "tasks": [{"ansible.builtin.import_role": {"name": "zombie_cleanup"}}],
                }
            ]
        )
    )
    variables = {
        "zombie_cleanup_mode": "all",
        "zombie_cleanup_become": True,
        "zombie_cleanup_delegate_to": "{{ inventory_hostname }}",
        "ansible_pipelining": True,
    }
    alone = play(node, playbook, **variables)
    assert alone.returncode != 0, "an ordinary user must not be able to end the server"
    assert node.processes()
    cleaned = play(node, playbook, zombie_cleanup_helper=str(HELPER), **variables)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert "changed=1" in cleaned.stdout
    assert not node.processes()
