"""All checks of one scope: reads through the preflight_read_* files and judges with the pure ones."""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict, FrozenSet, Iterator, List, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_argument_checks as arguments
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_driver_checks as driver
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_model_checks as models
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_package_checks as packages
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_read_driver as read_driver
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_read_system as read_system
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_system_checks as system
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_accounts import occupying
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_arguments import node_from
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_findings import describe_holder
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_report import account_rows
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_adaptive import CONFIG_FLAG, read_candidates
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_allreduce import check_allreduce
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_check import Check, failed, unknown
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_command_line import (
    CommandLine,
    parse_command_line,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_flags import known_flags
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_read_packages import (
    ask_flags,
    read_packages,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

NEEDED_DISK_MIB = 256
"""Room for the log and the state of a launch."""


def host_checks(params: Dict[str, Any]) -> List[Check]:
    """The checks of the machine that sees all processes and GPUs."""
    ranks = parse_command_line(params["argv"]).local_ranks
    facts = read_driver.read_driver(params["nvidia_smi"], params["timeout_s"])
    checks = [
        driver.check_driver(facts),
        driver.check_gpu_count(facts, ranks),
        driver.check_mig(facts),
        driver.check_ecc(facts),
    ]
    memory = "gpu-memory-free"
    if facts.smi_error or shutil.which(params["nvidia_smi"]) is None:
        checks.append(unknown(memory, "nvidia-smi does not answer"))
    elif params["ownership"] == "container" and shutil.which(params["pct"]) is None:
        checks.append(unknown(memory, f"{params['pct']} is not there, so this is no Proxmox host"))
    elif params["ownership"] == "container" and os.geteuid() != 0:
        checks.append(unknown(memory, "only root may ask Proxmox about the container"))
    else:
        checks.append(_gpu_memory(memory, params))
    checks.append(driver.check_xid(read_driver.read_kernel_log(params["timeout_s"])))
    checks.append(driver.check_peer_path(read_driver.read_pcie(), ranks))
    return checks


def _gpu_memory(name: str, params: Dict[str, Any]) -> Check:
    try:
        view = node_from(params).look()
    except GpuError as error:
        return failed(name, error.sentence.rstrip("."), "; ".join(error.next_steps), runbook=error.runbook)
    holders = [describe_holder(holder) for holder in occupying(view, params["idle_mib"])]
    return driver.check_gpu_memory(
        account_rows(view), holders, idle_mib=params["idle_mib"], fail_on_foreign=params["fail_on_foreign"]
    )


def container_checks(params: Dict[str, Any]) -> List[Check]:
    """The checks of the machine or container that the server runs in."""
    command = parse_command_line(params["argv"])
    found = read_packages(command.python, params["timeout_s"])
    version = params["sglang_version"] or found.sglang
    facts = read_driver.read_driver(params["nvidia_smi"], params["timeout_s"])
    flags, source = _flags(command, version, params)
    return [
        driver.check_driver(facts),
        *_system(command, params),
        packages.check_sglang(found, command.python),
        packages.check_pins(found),
        packages.check_cuda(found, facts.module, read_driver.capability_of(facts)),
        arguments.check_flags(command, version, flags, source),
        arguments.check_speculation(
            command, version, params["environment"], read_candidates(command.text(CONFIG_FLAG))
        ),
        *_models(command, version, params),
        *([_all_reduce(command, params)] if params["allreduce"] else []),
    ]


def _flags(
    command: CommandLine, version: Optional[str], params: Dict[str, Any]
) -> Tuple[Optional[FrozenSet[str]], str]:
    """The flags the installed version knows and where that is from: its own --help costs seconds, the data nothing."""
    recorded = known_flags(version) if version else None
    if version and (
        params["ask_interpreter"] == "always" or (recorded is None and params["ask_interpreter"] == "auto")
    ):
        asked = ask_flags(command.python, params["timeout_s"])
        if asked is not None:
            return asked, "its own --help"
    return recorded, "recorded data"


def _system(command: CommandLine, params: Dict[str, Any]) -> Iterator[Check]:
    ranks, table, user = command.local_ranks, ProcessTable(), params["user"]
    environment = params["environment"]
    size, free, segments, total = read_system.read_shared_memory()
    lives = read_system.live_leader(params["state_dir"], table) is not None
    host, port = command.text("--host") or "127.0.0.1", command.number("--port") or 30000
    state = read_system.read_port(host, port, params["state_dir"], params["unit"], table)
    files, memlock = read_system.read_limits()
    written = [read_system.read_place(path, user) for path in dict.fromkeys([params["log_dir"], params["state_dir"]])]
    caches = [read_system.read_place(path, user) for path in read_system.cache_directories(environment, user)]
    yield system.check_devices(read_system.read_devices(), ranks)
    yield system.check_shared_memory(size, free, ranks, environment)
    yield system.check_stale_segments(segments, total, server_lives=lives or state.listening)
    yield system.check_limits(files, memlock, unit=bool(params["unit"]))
    yield system.check_disk(written, NEEDED_DISK_MIB)
    yield system.check_caches(caches)
    yield system.check_port(state, port)
    yield system.check_exposure(host, keyed=params["api_key_set"])


def _models(command: CommandLine, version: Optional[str], params: Dict[str, Any]) -> Iterator[Check]:
    target, draft = command.text("--model-path"), command.text("--speculative-draft-model-path")
    if not target:
        yield failed("target-weights", "no target model is given", "set sglang_server_model_path")
        return
    yield models.check_weights("target-weights", target)
    if not command.speculative or not draft:
        return
    yield models.check_weights("draft-weights", draft)
    yield models.check_target_support(target, version)
    yield models.check_draft_model(draft, target, version, command.tensor_parallel_size)
    yield models.check_context(
        draft,
        target,
        version,
        context_length=command.number("--context-length"),
        environment=params["environment"],
        patched_later=params["patched_later"],
    )


def _all_reduce(command: CommandLine, params: Dict[str, Any]) -> Check:
    return check_allreduce(command.python, command.local_ranks, params["environment"], params["allreduce_timeout_s"])
