"""What the lab and its fixtures say where the lab cannot run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab import requirements
from tests.lab.errors import LabError, LabUnavailableError
from tests.lab.layout import REPOSITORY, Paths

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with all programs, and root."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda program: f"/usr/bin/{program}")
    return monkeypatch


def without_root(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("os.geteuid", lambda: 1000)


def without_mmdebstrap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("shutil.which", lambda program: None if program == "mmdebstrap" else program)


def without_cgroup2(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(requirements, "cgroup2_mount", lambda: None)


def with_read_only_cgroups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(requirements, "cgroup2_mount", lambda: Path("/sys/fs/cgroup"))
    patch.setattr("os.access", lambda *_: False)


def without_namespaces(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(requirements, "cgroup2_mount", lambda: Path("/tmp"))
    refused = subprocess.CompletedProcess([], 1, "", "unshare: unshare failed: Operation not permitted\n")
    patch.setattr("subprocess.run", lambda *_, **__: refused)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_root, "run it as root"),
        (without_mmdebstrap, "needs mmdebstrap, which is not installed: apt-get install mmdebstrap"),
        (without_cgroup2, "needs a cgroup2 mount"),
        (with_read_only_cgroups, "/sys/fs/cgroup is read-only"),
        (without_namespaces, "Operation not permitted"),
    ],
)
def test_the_first_thing_that_is_missing_is_named(
    machine: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None], words: str
) -> None:
    change(machine)
    with pytest.raises(LabUnavailableError, match=words):
        requirements.require()


@pytest.mark.parametrize(("ci", "status", "word"), [("false", 0, "skipped"), ("true", 1, "error")])
def test_tests_of_the_lab_are_skipped_with_the_reason_and_fail_in_ci(
    tmp_path: Path, ci: str, status: int, word: str
) -> None:
    test = "tests/integration/test_lab_machines.py::test_ssh_reaches_every_machine"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test]
    environment = {"PATH": str(tmp_path), "HOME": str(Path.home()), "CI": ci}
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=environment, check=False)
    assert done.returncode == status, done.stdout
    assert f"2 {word}" in done.stdout
    assert "the lab needs" in done.stdout


@pytest.mark.parametrize("name", ["", "../x", "Upper", "1", "a" * 17])
def test_a_name_that_would_not_do_as_a_directory_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="not usable"):
        Paths(name)


def test_paths_of_sockets_stay_below_the_limit_of_the_kernel() -> None:
    # Ansible's ten characters, and the seventeen that OpenSSH appends while it makes the socket.
    longest = Paths("a" * 16).control_sockets / ("x" * 10 + "." + "y" * 16)
    assert len(os.fsencode(longest)) < 108
