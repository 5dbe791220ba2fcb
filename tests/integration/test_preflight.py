"""preflight and doctor with real ansible-playbook runs on a simulated node."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.simulated_node import REPOSITORY, SimulatedNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    simulated = SimulatedNode(tmp_path / "node")
    yield simulated
    assert simulated.processes() == []


def words(output: str) -> str:
    return " ".join(output.replace("\\n", " ").split())


def doctor(node: SimulatedNode, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "controller", "doctor", *options]
    return subprocess.run(
        command, cwd=REPOSITORY, env=node.environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_doctor_names_the_clash_before_anything_starts(node: SimulatedNode) -> None:
    shown = doctor(node, "--json")
    assert shown.returncode == 2, shown.stderr
    document = json.loads(shown.stdout)
    checks: dict[str, Any] = {row["name"]: row for row in document["checks"]}
    assert document["ok"] is False
    assert document["simulated"] is True
    assert checks["context-length"]["ok"] is False
    assert "262144 tokens, the draft gives 131072" in checks["context-length"]["detail"]
    errors = [name for name, row in checks.items() if row["ok"] is False and row["severity"] == "error"]
    # The inventory wants eight GPUs, this node has two.
    assert errors == ["gpu-count", "context-length"]
    assert checks["server-flags"]["ok"] is True
    assert not (node.directory / "state" / "launch.json").exists()
    assert "ERROR" in doctor(node).stdout


def test_the_play_fails_or_reports(node: SimulatedNode) -> None:
    failed = node.play("playbooks/preflight.yml")
    assert failed.returncode == 2
    assert "The launch would fail." in words(failed.stdout)
    assert "context-length (simulated)" in words(failed.stdout)
    for variables in (
        {"preflight_fail_on": "never"},
        {"preflight_ignore": ["context-length"]},
        {"preflight_enabled": False},
        {"preflight_draft_patched_later": True},
        {"sglang_server_speculative": False},
    ):
        reported = node.play("playbooks/preflight.yml", variables, "--check")
        assert reported.returncode == 0, f"{variables}: {reported.stdout}"


def test_deploy_stops_before_it_changes_anything(node: SimulatedNode) -> None:
    variables = {"sglang_server_extra_flags": {"no-such-flag": True}}
    failed = node.play("deploy.yml", variables)
    assert failed.returncode == 2
    assert "SGLang 0.5.15 refuses: --no-such-flag is not known" in words(failed.stdout)
    assert not (node.directory / "state" / "launch.json").exists()


def test_an_all_reduce_without_torch_is_skipped(node: SimulatedNode) -> None:
    variables = {"preflight_allreduce": True, "preflight_draft_patched_later": True}
    played = node.play("playbooks/preflight.yml", variables, "-v")
    assert played.returncode == 0, played.stdout
    assert "torch cannot be imported" in words(played.stdout)
