#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: what a launch is made of, and what the GPUs did while the launch before it served."""

from __future__ import annotations

DOCUMENTATION = r"""
module: launch_conditions
short_description: What a launch is made of, and how the GPUs were while it served
description:
  - Returns package versions, hashes of model configurations, GPUs and driver, so that two launches can be compared.
  - Samples clocks, temperature, power and memory of the GPUs through C(nvidia-smi) while a launch serves, in a process
    of its own that ends with the next call, with the next launch, or after six hours. The result of one call holds the
    samples of the launch before.
  - A machine without C(nvidia-smi) has no samples; that is no failure.
version_added: 0.1.0
author: SGLang EAGLE-3 operations maintainers (@sglang-ops)
options:
  sampler:
    description: >-
      C(started) ends a sampler that runs and starts one for the next launch that serves, C(stopped) only ends it,
      C(untouched) leaves it alone.
    type: str
    choices: [started, stopped, untouched]
    default: untouched
  state_dir:
    description: Directory of the launch record.
    type: path
    required: true
  python:
    description: Interpreter of the serving environment.
    type: path
    default: ""
  models:
    description: Directories of target and draft model; empty ones are skipped.
    type: list
    elements: str
    default: []
  nvidia_smi:
    description: The program that knows the GPUs.
    type: str
    default: nvidia-smi
  interval_s:
    description: Seconds between two samples.
    type: float
    default: 5
attributes:
  check_mode:
    support: full
    description: Reads only; the sampler is neither started nor ended.
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Say what this launch is made of and watch its GPUs
  sglang_ops.eagle3.launch_conditions:
    sampler: started
    state_dir: /var/lib/sglang
    python: /root/ml-env/bin/python3
    models: [/shared/kimi-k2.5-int4]
"""

RETURN = r"""
identity:
  description: Names and values that two launches must have in common.
  returned: always
  type: dict
  sample: {"package sglang": "0.5.15", "driver": "580.95.05"}
previous:
  description: Launch and samples of the sampler that was ended; null when there was none or it saw nothing.
  returned: always
  type: dict
  sample: {"launch_id": "6f9b4a1e-0000-4000-8000-000000000000", "gpu": {"samples": 12, "sm_mhz_lowest": 2430.0}}
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_sampler import GpuSampler
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.node_identity import node_identity
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

ARGUMENTS: Dict[str, Any] = {
    "sampler": {"type": "str", "choices": ["started", "stopped", "untouched"], "default": "untouched"},
    "state_dir": {"type": "path", "required": True},
    "python": {"type": "path", "default": ""},
    "models": {"type": "list", "elements": "str", "default": []},
    "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
    "interval_s": {"type": "float", "default": 5.0},
}


def apply(parameters: Dict[str, Any], sampler: GpuSampler, *, check_mode: bool) -> Dict[str, Any]:
    """Do what was asked for and return the module's result.

    Raises:
        OSError: the sampler cannot be started.
    """
    previous = None
    if parameters["sampler"] != "untouched" and not check_mode:
        previous = sampler.stop()
        if parameters["sampler"] == "started":
            sampler.start(parameters["nvidia_smi"], parameters["interval_s"])
    identity = {}
    if parameters["sampler"] != "stopped":
        identity = node_identity(parameters["python"], parameters["models"], parameters["nvidia_smi"])
    return {"changed": False, "identity": identity, "previous": previous}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    sampler = GpuSampler(module.params["state_dir"], ProcessTable())
    try:
        result = apply(module.params, sampler, check_mode=module.check_mode)
    except OSError as error:
        module.fail_json(
            msg=f"The GPU sampler cannot be started in {module.params['state_dir']} ({error.strerror}); run as a user "
            "who may write there."
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
