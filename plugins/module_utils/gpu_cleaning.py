"""One cleaning from its parameters to its result: what the module gpu_reap does, and its helper for less than root."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any, ContextManager, Dict, List

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_arguments import node_from
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_container import full_unit_name
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_lock import exclusive
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_reaper import Reaper, ReapOptions
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_report import success_message
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_termination import Terminator


def clean(parameters: Dict[str, Any], *, check_mode: bool) -> Dict[str, Any]:
    """Clean and return the result of the module: ``failed``, ``msg``, ``warnings`` and what was found and ended.

    Args:
        parameters: the arguments of the module gpu_reap.
        check_mode: say what would happen, and change nothing.
    """
    started = time.monotonic()
    result: Dict[str, Any] = {"changed": False}
    warnings: List[str] = []
    try:
        with lock_for(parameters, check_mode=check_mode):
            node = node_from(parameters)
            options = ReapOptions(
                mode=parameters["mode"],
                unit=full_unit_name(parameters["unit"]),
                settle_s=parameters["settle_s"],
                idle_mib=parameters["idle_mib"],
                fail_on_foreign=parameters["fail_on_foreign"],
                allow_leak=parameters["allow_leak"],
                check_mode=check_mode,
            )
            reaper = Reaper(node, Terminator(node.table, parameters["grace_s"], parameters["kill_wait_s"]), options)
            result, warnings = reaper.result, reaper.warnings
            reaper.run()
    except GpuError as error:
        outcome = {
            "failed": True,
            "msg": error.message(),
            "next_steps": error.next_steps,
            "diagnosis": error.diagnosis,
            "runbook": error.runbook,
        }
    else:
        outcome = {"failed": False, "msg": success_message(result, check_mode=check_mode), "warnings": warnings}
    return {**result, **outcome, "elapsed_s": round(time.monotonic() - started, 3)}


def lock_for(parameters: Dict[str, Any], *, check_mode: bool) -> ContextManager[None]:
    """The lock of one cleaning.

    Check mode takes none (it would create the file), and so does a cleaning without a state directory: nothing is ours.
    """
    limit_s = parameters["grace_s"] + parameters["kill_wait_s"] + parameters["settle_s"]
    if check_mode:
        return contextlib.nullcontext()
    if parameters["lock_file"]:
        return exclusive(parameters["lock_file"], limit_s)
    if parameters["ownership"] == "container":
        return exclusive(f"/run/sglang-gpu-reap-{parameters['vmid']}.lock", limit_s)
    if not Path(parameters["state_dir"]).is_dir():
        return contextlib.nullcontext()
    return exclusive(str(Path(parameters["state_dir"]) / ".gpu_reap.lock"), limit_s)
