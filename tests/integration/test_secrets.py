"""Unique secrets at every place where one can enter; afterwards they are in no file and no output but those that must.

One deployment (as loud as Ansible can be), one small sweep with its report, a diagnosis, a status and a stop, all of a
server that asks for a key and writes it into its own log, as the real one does.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from controller.paths import REPOSITORY
from tests.integration.simulated_sweep import SimulatedSweep

if TYPE_CHECKING:
    from collections.abc import Iterator

BIN = Path(sys.executable).parent
API_KEY = "pl4nted-api-key-5f1c"
ADMIN_KEY = "pl4nted-admin-key-77aa"
HUB_TOKEN = "pl4nted-hub-token-0b3d"
PROXY_PASSWORD = "pl4nted-proxy-password-e2"
FLAG_PASSWORD = "pl4nted-flag-password-91"
PLANTED = b"pl4nted"


@dataclass
class Story:
    """What was run, what it printed, and where it wrote."""

    sweep: SimulatedSweep
    outputs: dict[str, bytes] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return self.sweep.environment | {"ANSIBLE_VAULT_PASSWORD_FILE": str(self.sweep.root / "vault-password")}

    def run(self, name: str, command: list[str], *, expect: int = 0) -> None:
        done = subprocess.run(
            command, cwd=REPOSITORY, env=self.environment, capture_output=True, timeout=240, check=False
        )
        self.outputs[name] = done.stdout + done.stderr
        assert done.returncode == expect, self.outputs[name][-4000:].decode()

    def controller(self, name: str, *arguments: str, expect: int = 0) -> None:
        target = [] if arguments[0] == "report" else ["-i", str(self.sweep.inventory)]
        self.run(name, [sys.executable, "-m", "controller", *arguments, *target], expect=expect)

    def lines_with_secrets(self, name: str) -> list[str]:
        """Return the lines that should not be there, each with the task that printed it."""
        task, found = "", []
        for line in self.outputs[name].decode().splitlines():
            task = line if line.startswith("TASK") else task
            if PLANTED.decode() in line:
                found.append(f"{task}: {line.strip()}")
        return found

    def files(self) -> Iterator[Path]:
        for path in self.sweep.root.rglob("*"):
            # The simulated GPUs' memory and the models are gigabytes of holes.
            if path.is_file() and not path.is_symlink() and path.suffix not in (".alloc", ".safetensors"):
                yield path

    def holding_secrets(self) -> set[str]:
        return {str(path.relative_to(self.sweep.root)) for path in self.files() if PLANTED in path.read_bytes()}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    old = os.umask(0o022)  # the usual one: what must be private must not rely on a better one
    root = tmp_path_factory.mktemp("secrets")
    sweep = SimulatedSweep.create(root, gpus=2)
    told = Story(sweep)
    (root / "vault-password").write_text("open sesame")
    variables = sweep.inventory / "host_vars" / "simulated"
    variables.mkdir(parents=True)
    (variables / "main.yml").write_text(
        "sglang_server_tp_size: 2\n"
        'sglang_server_api_key: "{{ vault_api_key }}"\n'
        'sglang_server_admin_api_key: "{{ vault_admin_key }}"\n'
        'sglang_server_environment: {HF_TOKEN: "{{ vault_hub_token }}", HTTPS_PROXY: "{{ vault_proxy }}"}\n'
        'sglang_server_extra_flags: {ssl-keyfile-password: "{{ vault_flag_password }}"}\n'
    )
    vault = variables / "vault.yml"
    vault.write_text(
        f"vault_api_key: {API_KEY}\nvault_admin_key: {ADMIN_KEY}\nvault_hub_token: {HUB_TOKEN}\n"
        f"vault_proxy: http://somebody:{PROXY_PASSWORD}@proxy.example.org:3128\nvault_flag_password: {FLAG_PASSWORD}\n"
    )
    try:
        told.run("vault", [str(BIN / "ansible-vault"), "encrypt", str(vault)])
        told.environment["ANSIBLE_CONFIG"] = str(REPOSITORY / "ansible.cfg")
        told.run("deploy", [str(BIN / "ansible-playbook"), "-i", str(sweep.inventory), "deploy.yml", "-vvv", "--diff"])
        yield told
    finally:
        os.umask(old)
        sweep.clean()


def test_a_deployment_shows_none_and_keeps_them_private(story: Story) -> None:
    assert story.lines_with_secrets("deploy") == []
    assert b"secret_environment" in story.outputs["deploy"], "the output is not as loud as this test believes"
    private = {
        "node/state/server.yaml",
        *(f"node/logs/{path.name}" for path in (story.sweep.node.path / "logs").iterdir()),
    }
    assert story.holding_secrets() == private
    for name in private:
        assert stat.S_IMODE((story.sweep.root / name).stat().st_mode) == 0o600, name


def test_the_server_has_them_and_no_command_line_shows_them(story: Story) -> None:
    launcher = json.loads((story.sweep.node.path / "state" / "launch.json").read_text())["pid"]
    environment = Path(f"/proc/{launcher}/environ").read_bytes()
    assert HUB_TOKEN.encode() in environment
    assert PROXY_PASSWORD.encode() in environment
    for process in story.sweep.node.processes():
        assert PLANTED not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    url = f"http://127.0.0.1:{story.sweep.port}"
    assert httpx.get(f"{url}/health").status_code == 200
    assert httpx.get(f"{url}/server_info").status_code == 401
    info = httpx.get(f"{url}/server_info", headers={"Authorization": f"bearer {API_KEY}"}).json()
    assert (info["api_key"], info["ssl_keyfile_password"]) == (API_KEY, FLAG_PASSWORD)
    assert httpx.post(f"{url}/flush_cache", headers={"Authorization": f"Bearer {API_KEY}"}).status_code == 401
    assert httpx.post(f"{url}/flush_cache", headers={"Authorization": f"Bearer {ADMIN_KEY}"}).status_code == 200


def test_a_sweep_measures_through_the_key_and_keeps_none(story: Story) -> None:
    directory = story.sweep.sweep_directory
    small = ("--blocks", "1", "--output-tokens", "16", "--prompts-per-run", "2", "--no-confirm", "--plain")
    arm = "other=steps:1,NCCL_ALGO:Tree"  # an arm with an environment hands the inventory's on as an extra variable
    story.controller("sweep", "sweep", "--no-baseline", "--arm", arm, "--dir", str(directory), *small)
    story.controller("status", "status", "--json")
    story.controller("diagnose", "diagnose", "--host")
    story.controller("plan", "plan", "--no-baseline", "--arm", arm)
    story.controller("stop", "stop", "--json")
    story.run("report", [sys.executable, "-m", "controller", "report", str(directory), "--json"])
    log = (directory / "cells" / "b01-other" / "server.log").read_bytes()
    assert b"api_key='REDACTED'" in log
    assert b"admin_api_key='REDACTED'" in log
    assert b"The server is fired up" in log
    assert [name for name, output in story.outputs.items() if PLANTED in output] == []
    kept = {name for name in story.holding_secrets() if not name.startswith("node/")}
    assert kept == set()
    node = {name for name in story.holding_secrets() if not name.startswith("node/logs/")}
    assert node == {"node/state/server.yaml"}


def test_nobody_else_can_read_what_was_written(story: Story) -> None:
    ours = [story.sweep.sweep_directory, story.sweep.root / "state"]
    written = [path for top in ours for path in [top, *top.rglob("*")]]
    assert len(written) > 10
    modes = {str(path.relative_to(story.sweep.root)): stat.S_IMODE(path.stat().st_mode) for path in written}
    wanted = {name: 0o700 if (story.sweep.root / name).is_dir() else 0o600 for name in modes}
    assert {name: oct(mode) for name, mode in modes.items() if mode != wanted[name]} == {}
    assert not list(story.sweep.sweep_directory.rglob(".ansible-*"))
