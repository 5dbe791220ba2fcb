"""What else may be missing: Python on the target, the Proxmox host, pct, temporary space, file descriptors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.modules import gpu_reap

from controller.paths import REPOSITORY
from tests.integration.simulated_sweep import SimulatedSweep, free_port
from tests.integration.small_disk import fill, small_disk
from tests.unit.controller.load.scripted_server import answer, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedSweep]:
    one = SimulatedSweep.create(tmp_path_factory.mktemp("target"))
    yield one
    one.clean()


def with_variables(simulated: SimulatedSweep, **hosts: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Clean the node with other variables for some hosts."""
    override = simulated.inventory / "zz_fault.yml"
    override.write_text(json.dumps({"all": {"hosts": hosts}}))
    try:
        return simulated.run("clean", "-i", str(simulated.inventory))
    finally:
        override.unlink()


def test_a_target_without_python_is_one_sentence(simulated: SimulatedSweep) -> None:
    gone = "/usr/bin/python-that-was-removed"
    done = with_variables(simulated, simulated_proxmox={"ansible_python_interpreter": gone})
    assert done.returncode == 3, done.stderr
    assert gone in done.stderr
    assert "Traceback" not in done.stderr


def test_a_proxmox_host_that_does_not_answer_ends_nothing(simulated: SimulatedSweep) -> None:
    variables = {"ansible_connection": "ssh", "ansible_port": free_port(), "ansible_host": "127.0.0.1"}
    done = with_variables(simulated, simulated_proxmox=variables)
    assert done.returncode == 3, done.stderr
    assert "the target cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.root
def test_a_full_temporary_directory_is_avoided(simulated: SimulatedSweep, tmp_path: Path) -> None:
    with small_disk(tmp_path / "tmp", 64) as disk:
        fill(disk)
        simulated.more_environment["TMPDIR"] = str(disk)
        done = simulated.run("clean", "-i", str(simulated.inventory))
        del simulated.more_environment["TMPDIR"]
    assert done.returncode == 0, done.stderr


def test_a_pct_that_hangs_ends_the_cleaning_in_time_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pct = tmp_path / "pct"
    pct.write_text("#!/bin/sh\nsleep 60\n")
    pct.chmod(0o755)
    given = {"ownership": "container", "vmid": 129, "pct": str(pct), "timeout_s": 1, "mode": "all"}
    began = time.monotonic()
    with patch_module_args({**given, "nvidia_smi": str(tmp_path / "none")}), pytest.raises(SystemExit):
        gpu_reap.main()
    assert time.monotonic() - began < 10
    result = json.loads(capsys.readouterr().out)
    assert result["failed"] is True
    assert not result.get("killed")
    assert "gave no answer within 1 s" in result["msg"]


LIMITED = """
import asyncio, json, os, resource, sys
from controller.load.client import run_workload
from controller.load.workload import Prompt, Workload
prompts = tuple(Prompt(id=number + 1, category="", text=f"x {number}") for number in range(80))
workload = Workload("test", prompts, prompts_per_run=24, repeats=1, concurrency_levels=(24,))
run_workload(sys.argv[1], workload, run=0, concurrency=24)  # whatever is imported late wants descriptors of its own
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8,) * 2)
records = run_workload(sys.argv[1], workload, run=0, concurrency=24)
print(json.dumps([record.error for record in records]))
"""


def test_without_descriptors_requests_fail_in_words_and_the_others_count() -> None:
    with serving(lambda *_: answer(9, gap=0.05)) as server:
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, server.url],
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout)
    assert len(errors) == 48
    assert None in errors
    assert any("Too many open files" in str(error) for error in errors), errors
