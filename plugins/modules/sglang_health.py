#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: watch the launch of an SGLang server until it is ready or lost."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_health
short_description: Watch the launch of an SGLang server until it is ready or lost
description:
  - Watches the processes of the launch, its log and its HTTP port together, for one slice of time. It returns early
    when the server is ready, when it is lost, and when the phase of its start changes; call it with C(until) to wait
    longer.
  - A dead launcher, a vanished scheduler and a fatal message in the log are reported within two seconds, with the cause
    and what to do about it.
  - The server is only ready when the process that listens on the port belongs to this launch, C(/health) answers 200
    and the effective settings are those that were asked for.
version_added: 0.1.0
author: SGLang EAGLE-3 operations maintainers (@sglang-ops)
options:
  manager:
    description: Who manages the server.
    type: str
    choices: [process, systemd]
    required: true
  unit:
    description: Name of the systemd unit.
    type: str
    default: sglang.service
  state_dir:
    description: Directory of the launch record.
    type: path
    required: true
  log_file:
    description: Log of the server. For O(manager=process) the launch record says it.
    type: path
    required: true
  host:
    description: Address to ask, seen from the target. An address that means "everywhere" is replaced by loopback.
    type: str
    default: 127.0.0.1
  port:
    description: TCP port of the server.
    type: int
    required: true
  url:
    description: Address under which others reach the server; only handed through to the result.
    type: str
    default: ""
  api_key:
    description: Key for C(/server_info).
    type: str
    default: ""
  speculative:
    description: Whether a draft model is loaded after the target.
    type: bool
    default: true
  wanted:
    description:
      - Settings by their names in C(/server_info), compared with the effective ones once the server is ready. SGLang
        rewrites some with no more than a warning. A null value is not compared, except for C(speculative_algorithm).
    type: dict
    default: {}
  effective_mismatch:
    description: Whether a difference is a failure or a warning.
    type: str
    choices: [fail, warn]
    default: fail
  slice_s:
    description: Longest time to watch before returning, in seconds.
    type: float
    default: 15
  budget_s:
    description: Longest time from the launch to a ready server, in seconds.
    type: float
    default: 600
  log_tail:
    description: How many of the last log lines a failure carries.
    type: int
    default: 80
  phase_limits:
    description:
      - Seconds by phase that a phase may stand still (neither a new phase nor a new line in the log) before the launch
        counts as stalled. Phases that are not named keep their defaults, see C(DEFAULT_LIMITS_S) in
        C(plugins/module_utils/phase_clock.py).
      - For C(serving) it is how long a server that has served may owe the token that C(/health) asks it for.
    type: dict
    default: {}
  nvidia_smi:
    description: The nvidia-smi program, asked only about a stall. Empty to leave the GPUs out of the evidence.
    type: str
    default: nvidia-smi
  systemctl:
    description: The systemctl program.
    type: str
    default: systemctl
  nnodes:
    description: Number of machines of the launch. With several of them, a failure of one is told to the others.
    type: int
    default: 1
  node_rank:
    description:
      - Which machine of several this is. Only that of rank 0 serves. Another one is ready once its log says that its
        schedulers are up and its port answers; it has no effective settings to compare.
    type: int
    default: 0
attributes:
  check_mode:
    support: full
    description: Only reads. When no launch lives in check mode there is nothing to watch, and that is no failure.
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Wait until the server is ready
  sglang_ops.eagle3.sglang_health:
    manager: process
    state_dir: /var/lib/sglang
    log_file: /var/log/sglang/server.log
    port: 8000
    wanted:
      speculative_num_steps: 3
      speculative_num_draft_tokens: 4
  register: health
  until: health.ready or health.failure is not none
  retries: 50
  delay: 0
"""

RETURN = r"""
ready:
  description: Whether the server is ready.
  returned: always
  type: bool
dead:
  description: Whether a process of the launch died or the log says that it will.
  returned: always
  type: bool
timed_out:
  description: Whether the budget is used up.
  returned: always
  type: bool
stalled:
  description: Whether the phase stood still for longer than it may.
  returned: always
  type: bool
eta_s:
  description: >-
    Seconds until the server is probably ready, from earlier launches of this state directory; null without one. They
    are kept in C(phase_history.json) by version, tensor parallelism and speculation.
  returned: always
  type: float
phase_left_s:
  description: Seconds until the present phase is probably over, from the same launches; null without one.
  returned: always
  type: float
shards:
  description: >-
    Files of weights that are loaded in the present phase (done) and how many there are (total); null in a phase
    without.
  returned: always
  type: dict
  sample: {"done": 3, "total": 64}
nothing_started:
  description: Whether there was no launch to watch (check mode only).
  returned: always
  type: bool
phase:
  description: >-
    starting, distributed_init, weights, draft_weights, memory_pool, target_graphs, draft_graphs, warmup, serving or
    dead.
  returned: always
  type: str
phases:
  description: Phases with begin and end in seconds since the launch, from the stamps in the log (resolution 1 s).
  returned: always
  type: list
  elements: dict
  sample: [{"name": "starting", "started_s": 0.0, "ended_s": 12.0}]
url:
  description: Address under which others reach the server.
  returned: always
  type: str
launch:
  description: The launch record without its environment; null when there is no launch.
  returned: always
  type: dict
elapsed_s:
  description: Seconds since the launch.
  returned: always
  type: float
log_silent_s:
  description: Seconds since the log grew by more than access lines of C(GET), those of health checks among them.
  returned: always
  type: float
server:
  description: Effective settings from C(/server_info), secrets redacted; empty while the server is not ready.
  returned: always
  type: dict
warnings:
  description: What was found odd but not wrong.
  returned: when there is something to say
  type: list
  elements: str
peer_failed:
  description: Name of another machine of the launch that failed while this one was not ready, empty without one.
  returned: with several machines
  type: str
failure:
  description: >-
    Null, or why the server cannot become ready: class, phase, cause, remedy, confidence, runbook, log_tail, survivors,
    exit_status, and for a stall the evidence: gpus, spinning, processes, stack, notes.
  returned: always
  type: dict
msg:
  description: The failure in one sentence, "" without one.
  returned: always
  type: str
"""

import contextlib
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set, Tuple, Union

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import health_report, stall_evidence
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis import known_failure
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_files import (
    LaunchFileError,
    LaunchFiles,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_target import (
    ProcessTarget,
    SystemdTarget,
    TargetError,
    find_process_target,
    find_systemd_target,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_watch import (
    LaunchWatch,
    Observation,
    WatchOptions,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.phase_clock import (
    PhaseHistory,
    PhaseLimitError,
    history_key,
    phase_limits,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_command_line import parse_command_line
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.server_probe import (
    differences,
    summarize,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.wording import as_sentence

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import Diagnosis

Target = Union[ProcessTarget, SystemdTarget]

ARGUMENTS: Dict[str, Any] = {
    "manager": {"type": "str", "choices": ["process", "systemd"], "required": True},
    "unit": {"type": "str", "default": "sglang.service"},
    "state_dir": {"type": "path", "required": True},
    "log_file": {"type": "path", "required": True},
    "host": {"type": "str", "default": "127.0.0.1"},
    "port": {"type": "int", "required": True},
    "url": {"type": "str", "default": ""},
    "api_key": {"type": "str", "default": "", "no_log": True},
    "speculative": {"type": "bool", "default": True},
    "wanted": {"type": "dict", "default": {}},
    "effective_mismatch": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
    "slice_s": {"type": "float", "default": 15.0},
    "budget_s": {"type": "float", "default": 600.0},
    "log_tail": {"type": "int", "default": 80},
    "phase_limits": {"type": "dict", "default": {}},
    "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
    "systemctl": {"type": "str", "default": "systemctl"},
    "nnodes": {"type": "int", "default": 1},
    "node_rank": {"type": "int", "default": 0},
}
# Reads as "everywhere" to a server; to a client it is no address.
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
MEMORY_FILE = "health.json"
LOG_APPEARS_S = 5.0
"""A unit that has just been started may not have opened its log yet."""


class Memory:
    """What the slice before knew of the same launch: the phase it reported and the schedulers it had seen."""

    def __init__(self, state_dir: str, launch_id: str) -> None:
        self._path = Path(state_dir, MEMORY_FILE)
        self._launch_id = launch_id
        content: Dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            content = json.loads(self._path.read_text(encoding="utf-8"))
        known = content.get("launch_id") == launch_id
        self.phase: str = content["phase"] if known else "starting"
        self.schedulers: Set[Tuple[int, int]] = {(p, t) for p, t in content["schedulers"]} if known else set()
        self.started_at: Optional[float] = content.get("started_at") if known else None

    def keep(self, phase: str, schedulers: Set[Tuple[int, int]], started_at: float) -> None:
        """Remember; not being able to costs a late phase report, no more."""
        content = {
            "launch_id": self._launch_id,
            "phase": phase,
            "schedulers": sorted(schedulers),
            "started_at": started_at,
        }
        with contextlib.suppress(OSError):
            self._path.write_text(json.dumps(content), encoding="utf-8")


def find_target(parameters: Dict[str, Any], table: ProcessTable) -> Target:
    """Return the launch to watch.

    Raises:
        TargetError: there is none.
        LaunchFileError: its record cannot be read.
    """
    if parameters["manager"] == "process":
        return find_process_target(LaunchFiles(parameters["state_dir"]), table)
    return find_systemd_target(
        parameters["unit"], parameters["log_file"], parameters["port"], table, parameters["systemctl"]
    )


def report(
    parameters: Dict[str, Any], watch: LaunchWatch, observation: Observation, table: ProcessTable
) -> Dict[str, Any]:
    """Turn what was seen into the module's result."""
    result = empty_result(parameters)
    known: Optional[Diagnosis] = None
    reason = observation.reason
    serves = watch.options.serves
    found = differences(parameters["wanted"], observation.info) if observation.ready and serves else []
    if found and parameters["effective_mismatch"] == "warn":
        observation.warnings.append(f"the server runs with other settings: {'; '.join(found)}")
    elif found:
        reason, known = "runs with other settings than asked for", health_report.mismatch_cause(found)
    elif observation.foreign:
        known = known_failure(
            "port-in-use",
            observation.foreign,
            watch.tracker.phase,
            "end that process or set another sglang_server_port",
        )
        reason = "cannot be reached"
    silent_s = watch.log_silent_s
    elapsed_s = watch.elapsed_s
    shards = watch.tracker.shards
    phase = watch.tracker.phase
    result.update(
        ready=observation.ready and not reason,
        dead=observation.dead,
        timed_out=observation.timed_out,
        stalled=observation.stalled,
        phase="dead" if observation.dead else phase,
        phases=[{"name": p.name, "started_s": p.started_s, "ended_s": p.ended_s} for p in watch.tracker.phases],
        launch=watch.target.record.public(),
        elapsed_s=round(elapsed_s, 3),
        log_silent_s=round(silent_s, 1),
        shards={"done": shards[0], "total": shards[1]} if shards else None,
        server=summarize(observation.info) if observation.ready and serves else {},
    )
    if reason:
        members = watch.target.members()
        stuck = observation.stalled or observation.timed_out
        result["failure"] = health_report.failure(
            phase=phase,
            lines=watch.log.lines,
            survivors=[{"pid": p.pid, "name": p.name} for p in members],
            exit_status=watch.target.exit_status(),
            tail_lines=parameters["log_tail"],
            secrets=[parameters["api_key"]],
            known=known,
            evidence=stall_evidence.collect(members, table, parameters["nvidia_smi"]) if stuck else None,
        )
        result["msg"] = health_report.sentence(reason, elapsed_s, result["failure"], silent_s)
    return result


def empty_result(parameters: Dict[str, Any]) -> Dict[str, Any]:
    """Return a result that says nothing yet, with every key there is."""
    return {
        "changed": False,
        "ready": False,
        "dead": False,
        "timed_out": False,
        "stalled": False,
        "eta_s": None,
        "phase_left_s": None,
        "shards": None,
        "nothing_started": False,
        "phase": "starting",
        "phases": [],
        "url": parameters["url"],
        "launch": None,
        "elapsed_s": 0.0,
        "log_silent_s": 0.0,
        "server": {},
        "failure": None,
        "msg": "",
    }


def without_target(parameters: Dict[str, Any], message: str, *, check_mode: bool) -> Dict[str, Any]:
    """Return the result when there is no launch: a failure, unless nothing could have been started in check mode."""
    result = empty_result(parameters)
    if check_mode:
        result.update(nothing_started=True, msg=message)
        return result
    result.update(
        dead=True,
        phase="dead",
        msg=as_sentence(message),
        failure=health_report.failure(
            phase="starting",
            lines=[],
            survivors=[],
            exit_status=None,
            tail_lines=0,
            known=known_failure("unknown", message, remedy="start the server with deploy.yml"),
        ),
    )
    return result


def observe(parameters: Dict[str, Any], table: ProcessTable, *, check_mode: bool) -> Tuple[Dict[str, Any], List[str]]:
    """Watch for one slice and return the module's result and its warnings."""
    try:
        target = find_target(parameters, table)
    except (TargetError, LaunchFileError) as error:
        return without_target(parameters, str(error), check_mode=check_mode), []
    if check_mode and not target.is_alive():
        return without_target(parameters, "no launch lives", check_mode=True), []
    memory = Memory(parameters["state_dir"], target.record.launch_id)
    options = WatchOptions(
        host=EVERYWHERE.get(parameters["host"], parameters["host"]),
        port=parameters["port"],
        api_key=parameters["api_key"],
        speculative=parameters["speculative"],
        slice_s=parameters["slice_s"],
        budget_s=parameters["budget_s"],
        known_phase=memory.phase,
        limits_s=phase_limits(parameters["phase_limits"]),
        serves=parameters["node_rank"] == 0,
    )
    watch = LaunchWatch(target, table, options, memory.schedulers, memory.started_at)
    observation = watch.run()
    observation.warnings += oddities(watch)
    if not check_mode:
        memory.keep(watch.tracker.phase, watch.schedulers, watch.clock.started_at)
    result = report(parameters, watch, observation, table)
    result["eta_s"], result["phase_left_s"] = estimate(parameters, watch, result, keep=not check_mode)
    return result, observation.warnings


def oddities(watch: LaunchWatch) -> List[str]:
    """Say what about the log or the clock makes the phases less sure than they look."""
    found = []
    log_file = watch.target.record.log_file
    if watch.elapsed_s > LOG_APPEARS_S and not Path(log_file).exists():
        found.append(f"the log {log_file} is gone (deleted or rotated), so phases and causes cannot be read from it")
    step_s = watch.clock.step_s
    if step_s:
        found.append(f"the target's clock was set by {step_s:+.0f} s since the launch; durations do not depend on it")
    return found


def estimate(
    parameters: Dict[str, Any], watch: LaunchWatch, result: Dict[str, Any], *, keep: bool
) -> Tuple[Optional[float], Optional[float]]:
    """Return the seconds until the server is probably ready, and those until its present phase is over.

    Remembers how long the start of a ready server took.
    """
    history = PhaseHistory(parameters["state_dir"])
    speculative = parameters["speculative"]
    parallel = parse_command_line(watch.target.record.argv).number("--tp-size")
    if result["ready"]:
        if keep:
            key = history_key(str(result["server"].get("version") or ""), parallel, speculative=speculative)
            history.add(key, watch.target.record.launch_id, watch.tracker.phases)
        return 0.0, None
    if result["failure"]:
        return None, None
    end = "|" + history_key("", parallel, speculative=speculative).partition("|")[2]
    ready_s = history.eta_s(end, watch.tracker.phases, watch.elapsed_s)
    later_s = history.eta_s(end, watch.tracker.phases, math.inf)  # as if the present phase had used its time up
    return ready_s, None if ready_s is None or later_s is None else round(ready_s - later_s, 1)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result, warnings = observe(module.params, ProcessTable(), check_mode=module.check_mode)
    except PhaseLimitError as error:
        module.fail_json(msg=f"{error}.")
    for warning in warnings:
        module.warn(warning)
    if result["failure"] is not None:
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
