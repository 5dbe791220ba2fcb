#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: what would make the launch fail, asked before any weight is loaded."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_info
short_description: Ask what would make an SGLang launch fail, before it is tried
version_added: "0.1.0"
author:
  - SGLang EAGLE-3 operations maintainers (@sglang-ops)
description:
  - Runs the checks of one scope and returns them; changes nothing.
  - What cannot be known (a tool that is missing, a hub name instead of a folder) is null, never an error.
options:
  scope:
    description:
      - V(host) looks at driver, GPUs, kernel log and PCIe, where all processes are seen (the Proxmox host).
      - V(container) looks at devices, limits, packages, command line and models, where the server runs.
    type: str
    choices: [host, container]
    required: true
  argv:
    description: The server's whole command line, as it will be started.
    type: list
    elements: str
    required: true
  environment:
    description: The server's environment.
    type: dict
    default: {}
  host:
    description: Name to put on the checks.
    type: str
    default: localhost
  checks_before:
    description: Checks of another scope; they come first in the result and count for the verdict.
    type: list
    elements: dict
    default: []
  fail_on:
    description: Whether failed checks of this severity (or worse) fail the module.
    type: str
    choices: [error, warning, never]
    default: never
  ignore:
    description: Names of checks whose failures are only warnings.
    type: list
    elements: str
    default: []
  sglang_version:
    description: SGLang's version; empty means to ask the interpreter.
    type: str
    default: ""
  ask_interpreter:
    description:
      - Whether the launcher's C(--help) is asked for its flags. V(auto) asks when no recorded data knows the version.
    type: str
    choices: [auto, always, never]
    default: auto
  user:
    description: User that the server runs as; empty for the one that runs this module.
    type: str
    default: ""
  log_dir:
    description: Directory of the logs.
    type: path
    default: /var/log/sglang
  state_dir:
    description: Directory of the launch record, as the server sees it.
    type: path
    default: /var/lib/sglang
  unit:
    description: The server's systemd unit; empty when it runs as a process.
    type: str
    default: ""
  patched_later:
    description: Whether the draft's context length will be raised before the launch, which makes a clash a warning.
    type: bool
    default: false
  api_key_set:
    description: Whether the server will ask for a key; not the key itself.
    type: bool
    default: false
  allreduce:
    description: Whether a timed all-reduce over all GPUs is run (scope V(container)). The GPUs must be free.
    type: bool
    default: false
  allreduce_timeout_s:
    description: Seconds for the all-reduce, the import of torch included.
    type: float
    default: 120
  vmid:
    description: Number of the container.
    type: int
  idle_mib:
    description: Memory in MiB that a free GPU may have in use.
    type: int
    default: 512
  fail_on_foreign:
    description: Whether GPU memory of others is an error; else a warning.
    type: bool
    default: true
  timeout_s:
    description: Seconds for one external program.
    type: float
    default: 60
extends_documentation_fragment:
  - sglang_ops.eagle3.gpu_node
attributes:
  check_mode:
    support: full
    description: The module only reads.
  diff_mode:
    support: none
    description: Nothing changes.
  platform:
    support: full
    platforms: linux
    description: Needs procfs; some checks need root.
"""

EXAMPLES = r"""
- name: Ask the Proxmox host
  sglang_ops.eagle3.preflight_info:
    scope: host
    argv: [python3, -m, sglang.launch_server, --tp-size, "8"]
    vmid: 129
  delegate_to: pve1.example.org
"""

RETURN = r"""
checks:
  description: One entry for each check, those of O(checks_before) first.
  returned: always
  type: list
  elements: dict
  contains:
    name: {description: Stable name., type: str}
    ok: {description: Null when it does not apply or cannot be known., type: bool}
    severity: {description: error or warning., type: str}
    detail: {description: What was found., type: str}
    remedy: {description: What to do., type: str}
    runbook: {description: Page that explains it., type: str}
    host: {description: Where it was asked., type: str}
ok:
  description: Whether no check failed.
  returned: always
  type: bool
errors:
  description: Number of failed checks of severity error.
  returned: always
  type: int
warnings_found:
  description: Number of failed checks of severity warning.
  returned: always
  type: int
"""

from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_arguments import node_arguments
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_check import (
    ERROR,
    RUNBOOK,
    WARNING,
    as_rows,
    failures,
    sentence,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_run import container_checks, host_checks

ARGUMENTS: Dict[str, Dict[str, Any]] = {
    **node_arguments(),
    "scope": {"type": "str", "choices": ["host", "container"], "required": True},
    "argv": {"type": "list", "elements": "str", "required": True},
    "environment": {"type": "dict", "default": {}},
    "host": {"type": "str", "default": "localhost"},
    "checks_before": {"type": "list", "elements": "dict", "default": []},
    "fail_on": {"type": "str", "choices": ["error", "warning", "never"], "default": "never"},
    "ignore": {"type": "list", "elements": "str", "default": []},
    "sglang_version": {"type": "str", "default": ""},
    "ask_interpreter": {"type": "str", "choices": ["auto", "always", "never"], "default": "auto"},
    "user": {"type": "str", "default": ""},
    "log_dir": {"type": "path", "default": "/var/log/sglang"},
    "state_dir": {"type": "path", "default": "/var/lib/sglang"},
    "unit": {"type": "str", "default": ""},
    "patched_later": {"type": "bool", "default": False},
    "api_key_set": {"type": "bool", "default": False, "no_log": False},
    "allreduce": {"type": "bool", "default": False},
    "allreduce_timeout_s": {"type": "float", "default": 120},
    "idle_mib": {"type": "int", "default": 512},
    "fail_on_foreign": {"type": "bool", "default": True},
    "timeout_s": {"type": "float", "default": 60},
}


def run(params: Dict[str, Any]) -> Dict[str, Any]:
    """The module's result."""
    checks = host_checks(params) if params["scope"] == "host" else container_checks(params)
    rows: List[Dict[str, Any]] = [*params["checks_before"], *as_rows(checks, params["host"], params["ignore"])]
    errors, warnings = failures(rows, ERROR), failures(rows, WARNING)
    return {
        "changed": False,
        "checks": rows,
        "ok": not errors and not warnings,
        "errors": len(errors),
        "warnings_found": len(warnings),
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    if not module.params["argv"]:
        module.fail_json(msg="argv is empty: import the variables of the role sglang_server before the role preflight.")
    result = run(module.params)
    fail_on = module.params["fail_on"]
    wrong = failures(result["checks"], ERROR)
    noted = failures(result["checks"], WARNING)
    if fail_on == "warning":
        wrong, noted = wrong + noted, []
    if fail_on != "never":
        for row in noted:
            module.warn(sentence(row))
        if wrong:
            text = " ".join(sentence(row) for row in wrong)
            module.fail_json(msg=f"The launch would fail. {text} See {RUNBOOK}.", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
