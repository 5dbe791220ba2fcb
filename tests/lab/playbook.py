"""Run a playbook against a lab and get the results of its tasks."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ansible_runner

from tests.lab.layout import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.running import RunningLab

TIMEOUT_S = 240
ENDINGS = {"runner_on_ok": False, "runner_on_failed": True, "runner_on_unreachable": True}


@dataclass(frozen=True)
class TaskResult:
    """What one task returned on one host, and how long it took. ``action`` is the name of its module."""

    host: str
    task: str
    action: str
    failed: bool
    result: Mapping[str, Any]
    duration_s: float


@dataclass(frozen=True)
class PlaybookOutcome:
    """How a playbook ended; ``output`` is what Ansible printed."""

    return_code: int
    tasks: tuple[TaskResult, ...]
    output: str

    def of(self, action: str) -> Mapping[str, Any]:
        """The result of the last task that called the module ``action``."""
        found = [task for task in self.tasks if task.action.rpartition(".")[2] == action]
        assert found, f"no task called {action}:\n{self.output}"
        return found[-1].result


def run_playbook(
    lab: RunningLab,
    playbook: Path | list[dict[str, Any]],
    directory: Path,
    *,
    variables: Mapping[str, Any] | None = None,
    check: bool = False,
) -> PlaybookOutcome:
    """Run a playbook on a lab, with the settings of ``inventory/``.

    Args:
        lab: where.
        playbook: a file, or plays as data.
        directory: takes Ansible's files; has to be empty.
        variables: extra variables.
        check: predict instead of doing.
    """
    if not isinstance(playbook, Path):
        path = directory / "playbook.json"  # JSON is YAML
        path.write_text(json.dumps(playbook))
        playbook = path
    private = directory / "runner"  # a fresh one: files of an earlier run would win over the arguments
    private.mkdir()
    runner = ansible_runner.run(
        private_data_dir=str(private),
        project_dir=str(REPOSITORY),
        playbook=str(playbook),
        inventory=str(REPOSITORY / "molecule/inventory"),
        extravars=dict(variables or {}),
        envvars={
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_HOST_KEY_CHECKING": "True",
            "LAB_NAME": lab.name,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        cmdline="--check --diff" if check else "--diff",
        settings={"pexpect_timeout": 1},
        timeout=TIMEOUT_S,
        quiet=True,
        cancel_callback=lambda: False,
    )
    return PlaybookOutcome(int(runner.rc), tuple(_results(runner.events)), runner.stdout.read())


def _results(events: Any) -> list[TaskResult]:
    results = []
    for event in events:
        if event["event"] not in ENDINGS:
            continue
        data = event["event_data"]
        failed = ENDINGS[event["event"]]
        duration_s = float(data.get("duration", 0.0))
        results.append(TaskResult(data["host"], data["task"], data["task_action"], failed, data["res"], duration_s))
    return results
