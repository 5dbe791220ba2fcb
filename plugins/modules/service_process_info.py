#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: the main process of a systemd unit, and whether the kernel grants it what the unit asks for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: service_process_info
short_description: Verify that a systemd unit was started with the limits it asks for
version_added: "0.1.0"
description:
  - Asks systemd whether the unit was started, and reads the limits of its main process from C(/proc/PID/limits). What
    the unit says about limits proves nothing, because an unprivileged container grants less without a word.
  - A unit whose main process has ended since is reported with C(pid) 0 and without limits, and is no failure.
options:
  unit:
    description: Name of the systemd unit.
    type: str
    required: true
  nofile:
    description: Number of open files that the process has to be allowed, or V(infinity).
    type: str
  memlock:
    description: Bytes of locked memory that the process has to be allowed, or V(infinity).
    type: str
  oom_score_adj:
    description: Value that the process has to have, from -1000 to 1000.
    type: int
  on_shortfall:
    description: What to do when less is granted.
    type: str
    choices: [warn, fail, ignore]
    default: warn
  systemctl:
    description: The systemctl program.
    type: str
    default: systemctl
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    support: none
author:
  - SGLang EAGLE-3 operations maintainers (@sglang-ops)
"""

EXAMPLES = r"""
- name: Verify that the server has its limits
  sglang_ops.eagle3.service_process_info:
    unit: sglang.service
    nofile: 1048576
    memlock: infinity
    on_shortfall: fail
"""

RETURN = r"""
pid:
  description: The main process, 0 when it has ended.
  returned: success
  type: int
granted:
  description: Limits (a number or C(unlimited)) and C(oom_score_adj) of the main process; empty when it has ended.
  returned: always
  type: dict
  sample: {"nofile": 1048576, "memlock": "unlimited", "oom_score_adj": 0}
shortfalls:
  description: What is not granted, one sentence each.
  returned: always
  type: list
  elements: str
"""

from typing import Any, Dict, List, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_limits import (
    OOM_SCORE_ADJ,
    Limit,
    LimitError,
    parse_wish,
    read_granted,
    shortfalls,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.systemd_unit import UnitError, show_unit
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.wording import as_sentence

PROPERTIES = ("MainPID", "ExecMainStartTimestampMonotonic", "ConditionResult", "Result")

ARGUMENTS: Dict[str, Dict[str, Any]] = {
    "unit": {"type": "str", "required": True},
    "nofile": {"type": "str"},
    "memlock": {"type": "str"},
    "oom_score_adj": {"type": "int"},
    "on_shortfall": {"type": "str", "choices": ["warn", "fail", "ignore"], "default": "warn"},
    "systemctl": {"type": "str", "default": "systemctl"},
}


class ServiceError(Exception):
    """The unit was not started; the message is one sentence."""


def wishes(parameters: Dict[str, Any]) -> Dict[str, Limit]:
    """Return what was asked for, by the names of `process_limits`.

    Raises:
        LimitError: a limit is not a number.
    """
    found = {name: parse_wish(parameters[name]) for name in ("nofile", "memlock") if parameters[name]}
    if parameters[OOM_SCORE_ADJ] is not None:
        found[OOM_SCORE_ADJ] = parameters[OOM_SCORE_ADJ]
    return found


def main_process(unit: str, systemctl: str) -> int:
    """Return the process number of the unit's main process, 0 when it has ended since it was started.

    Raises:
        ServiceError: the unit was not started.
        UnitError: systemd cannot be asked.
    """
    properties = show_unit(unit, PROPERTIES, systemctl)
    condition = properties.get("ConditionResult", "no")
    if condition != "yes" or properties.get("ExecMainStartTimestampMonotonic", "0") in ("", "0"):
        raise ServiceError(
            f"{unit} was not started ({properties.get('Result', 'unknown')}, condition {condition}); "
            f"read 'systemctl status {unit}'"
        )
    return int(properties.get("MainPID") or 0)


def run(parameters: Dict[str, Any], root: str = "/proc") -> Tuple[Dict[str, Any], List[str]]:
    """Look, and return the module's result and the sentences about what is not granted.

    Raises:
        LimitError, ServiceError, UnitError: see `wishes` and `main_process`.
    """
    wanted = wishes(parameters)
    pid = main_process(parameters["unit"], parameters["systemctl"])
    granted = read_granted(pid, root) if pid else None
    if granted is None:
        return {"changed": False, "pid": 0, "granted": {}, "shortfalls": []}, []
    subject = f"{parameters['unit']} (pid {pid})"
    sentences = [f"{shortfall.sentence(subject)}." for shortfall in shortfalls(wanted, granted)]
    return {"changed": False, "pid": pid, "granted": granted, "shortfalls": sentences}, sentences


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result, sentences = run(module.params)
    except (LimitError, ServiceError, UnitError) as error:
        module.fail_json(msg=as_sentence(error), granted={}, shortfalls=[])
    if sentences and module.params["on_shortfall"] == "fail":
        module.fail_json(msg=" ".join(sentences), **result)
    if module.params["on_shortfall"] == "warn":
        for sentence in sentences:
            module.warn(sentence)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
