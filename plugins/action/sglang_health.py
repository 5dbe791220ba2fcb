# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The controller's part of the module sglang_health: tells the machines of one launch that one of them has failed.

Ansible lets a host know nothing of the others before the task has ended on all of them. The others would wait in that
task for a peer that is gone, until their own limits end it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional

from ansible import constants
from ansible.plugins.action import ActionBase

SLICE_S = 3.0
"""How long a machine of several looks before it asks for news of the others."""
LAST_SLICE_S = 0.5


class ActionModule(ActionBase):  # type: ignore[misc] # Ansible has no types
    """Runs the module; with several machines also leaves word of a failure, and looks for that of others."""

    def run(self, tmp: Optional[str] = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Return the module's result; `peer_failed` names the machine that failed while this one is not ready."""
        result: Dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        variables = task_vars or {}
        several = int(arguments.get("nnodes") or 1) > 1
        host = str(variables.get("inventory_hostname", ""))
        # The folder is this run's own and goes with it; the task is the same one for every host.
        words = Words(Path(constants.DEFAULT_LOCAL_TMP), str(self._task._uuid))  # noqa: SLF001 - it has no public name
        if several:
            longest_s = LAST_SLICE_S if words.of_another(host) else SLICE_S
            arguments["slice_s"] = min(float(arguments.get("slice_s", SLICE_S)), longest_s)
        result.update(
            self._execute_module(
                module_name="sglang_ops.eagle3.sglang_health", module_args=arguments, task_vars=task_vars
            )
        )
        if several and result.get("failure"):
            words.leave(host)
        elif several and not result.get("ready"):
            result["peer_failed"] = words.of_another(host)
        return result


class Words:
    """Empty files named after the hosts that failed."""

    def __init__(self, folder: Path, task: str) -> None:
        self._folder = folder
        self._prefix = f"sglang_health-{task}-"

    def leave(self, host: str) -> None:
        """Say that this host has failed."""
        (self._folder / f"{self._prefix}{host}").touch()

    def of_another(self, host: str) -> str:
        """Return the name of another host that has failed, "" without one."""
        names = sorted(path.name.removeprefix(self._prefix) for path in self._folder.glob(f"{self._prefix}*"))
        return next((name for name in names if name != host), "")
