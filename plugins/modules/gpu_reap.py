#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: end the processes of one SGLang server that hold GPU memory, and verify that the memory is free."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_reap
short_description: End the GPU processes of one SGLang server and verify that the memory is free
version_added: "0.1.0"
author:
  - SGLang EAGLE-3 operations maintainers (@sglang-ops)
description:
  - Finds who holds the GPUs (compute contexts from nvidia-smi, and open C(/dev/nvidia*) files of every process, also of
    threads whose leader has already exited), ends those that belong to the server, and waits until the driver has given
    the memory back.
  - A process is I(ours) by kernel facts only, never by its name. See O(ownership).
  - What is ours goes in this order. The systemd unit is stopped in the container; the launchers get SIGTERM, oldest
    first, so that SGLang can take its own children down; then the rest gets SIGTERM; what is left after O(grace_s)
    gets SIGKILL. Each signal goes through a pidfd whose process start time has been compared, so a reused process
    number is never hit.
  - With O(ownership=container), the process groups and descendants of GPU holders go with them (launcher, detokenizer,
    compile workers). With O(ownership=session) exactly the sessions of the launch records go.
  - Foreign processes (other containers, VMs, the host) are named and never touched. PID 1 of a container is never
    signalled. Driver services, monitors and display servers are recognised and left.
  - It never resets a GPU, unloads a driver module or restarts a container. When memory stays in use, it fails and
    says which runbook to follow.
extends_documentation_fragment:
  - sglang_ops.eagle3.gpu_node
options:
  mode:
    description:
      - V(orphans) leaves a live managed launch alone (in the cgroup of the running O(unit), or of a launch record whose
        leader lives) and ends everything else that is ours.
      - V(all) ends everything that is ours. Afterwards the record of the launch is kept as C(launch.json.last), and a
        failure of the O(unit) is forgotten.
    type: str
    choices: [orphans, all]
    default: orphans
  unit:
    description:
      - The server's systemd unit in the container. It need not exist. An empty string means that there is none.
      - Not used with O(ownership=session).
    type: str
    default: sglang.service
  grace_s:
    description:
      - Seconds from the first SIGTERM to SIGKILL. Half of it is the launchers' own.
      - O(grace_s) and O(kill_wait_s) together limit the wait for the systemd unit.
    type: float
    default: 30
  kill_wait_s:
    description:
      - Seconds from SIGKILL until a process counts as one that cannot be killed.
    type: float
    default: 10
  settle_s:
    description:
      - Seconds that the driver gets to return memory nobody accounts for. SGLang's own clean-up waits 100 s as well.
    type: float
    default: 100
  idle_mib:
    description:
      - Memory in MiB that a GPU may have in use and still count as free. A driver without clients reports between 0
        and a few hundred MiB; one rank of a served model has tens of thousands.
    type: int
    default: 512
  fail_on_foreign:
    description:
      - Fail when processes that are not ours hold more than O(idle_mib) of a GPU. Otherwise they are only reported.
    type: bool
    default: true
  allow_leak:
    description:
      - Only report memory that no live process accounts for, instead of failing.
    type: bool
    default: false
  lock_file:
    description:
      - File that keeps two cleanings apart. The default is C(/run/sglang-gpu-reap-VMID.lock), or C(.gpu_reap.lock) in
        O(state_dir).
    type: path
  helper:
    description:
      - Command that cleans in place of the module, run through C(sudo -n), for a user with no other right. Its settings
        on that machine decide O(unit), O(state_dir), O(pct), O(nvidia_smi), O(gpu_uuids) and O(lock_file).
      - The playbook C(reap_helper) installs it.
    type: path
attributes:
  check_mode:
    support: full
    description: Nothing is signalled, stopped, renamed or created. The result says what would be.
  diff_mode:
    support: full
    description: The table of GPUs and their holders before and after.
  platform:
    support: full
    platforms: linux
    description: Needs procfs, and root (or the server's own user with O(ownership=session)).
seealso:
  - module: sglang_ops.eagle3.gpu_holders_info
"""

EXAMPLES = r"""
- name: Free the GPUs from what a crashed server left in container 129
  sglang_ops.eagle3.gpu_reap:
    vmid: 129
    mode: orphans
  delegate_to: pve1.example.org

- name: Stop the server in container 129 and free its GPUs
  sglang_ops.eagle3.gpu_reap:
    vmid: 129
    mode: all
    unit: sglang.service

- name: Free two GPUs on a machine without containers, beside other users' processes
  sglang_ops.eagle3.gpu_reap:
    ownership: session
    mode: all
    gpu_uuids:
      - GPU-00000000-0000-0000-0000-000000000000
      - GPU-00000000-0000-0000-0000-000000000001
    fail_on_foreign: false
"""

RETURN = r"""
killed:
  description:
    - Processes that were ended (in check mode would be). C(signal) is the last one sent to it, or C(parent) when it
      went with its launcher, or C(unit) when it went with its systemd unit. In check mode it is the signal the
      process would get first.
  returned: always
  type: list
  elements: dict
  sample: [{"pid": 4242, "name": "sglang::scheduler_TP0", "signal": "TERM"}]
foreign:
  description:
    - Holders that are not ours, one entry for each process and GPU. C(used_mib) is null where nvidia-smi does not
      say.
  returned: always
  type: list
  elements: dict
  sample:
    - pid: 977
      name: python3
      gpu: 0
      used_mib: 20000
      context: true
      owner: container 1290
      class: foreign
protected:
  description: Processes of the live managed launch, which V(orphans) leaves alone.
  returned: always
  type: list
  elements: dict
system:
  description: Driver services, monitors and display servers that have a GPU device open.
  returned: always
  type: list
  elements: dict
before:
  description: The GPUs looked at, before.
  returned: always
  type: list
  elements: dict
  sample: [{"index": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000000", "used_mib": 77824, "total_mib": 97887}]
after:
  description: The GPUs looked at, after.
  returned: always
  type: list
  elements: dict
  sample: [{"index": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000000", "used_mib": 4, "total_mib": 97887}]
leaked:
  description: GPUs with more than O(idle_mib) in use that no live process accounts for.
  returned: always
  type: list
  elements: dict
  sample: [{"index": 3, "uuid": "GPU-00000000-0000-0000-0000-000000000003", "unaccounted_mib": 77824}]
survivors:
  description: Processes that outlived SIGKILL, with the kernel functions that their threads in state D wait in.
  returned: always
  type: list
  elements: dict
  sample: [{"pid": 4242, "name": "sglang::scheduler_TP0", "state": "D", "wait_channels": ["os_acquire_rwlock_write"]}]
launches_removed:
  description: Launches whose record is now C(launch.json.last).
  returned: always
  type: list
  elements: dict
  sample: [{"launch_id": "6f9b4a1e-0000-4000-8000-000000000000", "pid": 811}]
unit:
  description:
    - State of the systemd unit before the cleaning, and whether it was stopped. Null when it was not asked for.
  returned: always
  type: dict
  sample: {"name": "sglang.service", "load_state": "loaded", "active_state": "active", "stopped": true}
notes:
  description: Observations that do not fail the cleaning.
  returned: always
  type: list
  elements: str
next_steps:
  description: What to do about the failure, in order.
  returned: on failure
  type: list
  elements: str
diagnosis:
  description: Id of the finding; the runbook carries the same name. Empty where there is none.
  returned: on failure
  type: str
  sample: gpu-process-in-d-state
runbook:
  description: Path of the runbook in the repository.
  returned: on failure
  type: str
  sample: docs/runbooks/gpu-process-in-d-state.md
elapsed_s:
  description: Seconds that the module worked.
  returned: always
  type: float
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_arguments import node_arguments
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_cleaning import clean
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_helper import ask_helper


def argument_spec() -> Dict[str, Any]:
    """The module's arguments."""
    return {
        **node_arguments(),
        "mode": {"type": "str", "choices": ["orphans", "all"], "default": "orphans"},
        "unit": {"type": "str", "default": "sglang.service"},
        "grace_s": {"type": "float", "default": 30},
        "kill_wait_s": {"type": "float", "default": 10},
        "settle_s": {"type": "float", "default": 100},
        "idle_mib": {"type": "int", "default": 512},
        "fail_on_foreign": {"type": "bool", "default": True},
        "allow_leak": {"type": "bool", "default": False},
        "lock_file": {"type": "path"},
        "helper": {"type": "path"},
    }


def outcome(parameters: Dict[str, Any], *, check_mode: bool) -> Dict[str, Any]:
    """Clean, oneself or through the helper, and return the result."""
    if not parameters["helper"]:
        return clean(parameters, check_mode=check_mode)
    try:
        return ask_helper(["sudo", "-n", parameters["helper"]], parameters, check_mode=check_mode)
    except GpuError as error:
        return {
            "changed": False,
            "failed": True,
            "msg": error.message(),
            "next_steps": error.next_steps,
            "diagnosis": error.diagnosis,
            "runbook": error.runbook,
        }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=argument_spec(),
        required_if=[("ownership", "container", ("vmid",))],
        supports_check_mode=True,
    )
    result = outcome(module.params, check_mode=module.check_mode)
    for warning in result.pop("warnings", []):
        module.warn(warning)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
