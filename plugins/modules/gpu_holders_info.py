#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: who holds GPU memory on this machine, and which of it belongs to the SGLang server."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_holders_info
short_description: Who holds GPU memory, and which of it belongs to one SGLang server
version_added: "0.1.0"
author:
  - SGLang EAGLE-3 operations maintainers (@sglang-ops)
description:
  - The read-only twin of M(sglang_ops.eagle3.gpu_reap). It gives the same view (memory by GPU, holders with the class
    of their owner, launches) and changes nothing.
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
    description: Needs procfs, and root to see other users' processes.
seealso:
  - module: sglang_ops.eagle3.gpu_reap
"""

EXAMPLES = r"""
- name: Look who holds the GPUs of container 129
  sglang_ops.eagle3.gpu_holders_info:
    vmid: 129
  delegate_to: pve1.example.org
  register: holders

- name: Show the table
  ansible.builtin.debug:
    msg: "{{ holders.table }}"
"""

RETURN = r"""
gpus:
  description: Memory of each GPU by owner, in MiB. C(unaccounted_mib) is in use and no live process accounts for it.
  returned: always
  type: list
  elements: dict
  sample:
    - index: 0
      uuid: GPU-00000000-0000-0000-0000-000000000000
      used_mib: 77824
      total_mib: 97887
      ours_mib: 77824
      foreign_mib: 0
      system_mib: 0
      unaccounted_mib: 0
holders:
  description: One entry for each process and GPU. C(class) is C(ours), C(foreign) or C(system).
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
launches:
  description:
    - The launch records and whether their leader lives. C(status) is C(alive), C(dead) or C(stale) (of another
      boot).
  returned: always
  type: list
  elements: dict
  sample: [{"launch_id": "6f9b4a1e-0000-4000-8000-000000000000", "pid": 811, "status": "alive", "members": [811, 812]}]
table:
  description: The same as text.
  returned: always
  type: str
container_running:
  description: Whether the container runs; null with O(ownership=session).
  returned: always
  type: bool
"""

from typing import TYPE_CHECKING, Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_arguments import node_arguments, node_from
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_report import (
    account_rows,
    holder_rows,
    holder_table,
    launch_rows,
)

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_node import Node


def describe(node: Node) -> Dict[str, Any]:
    """The module's result for a node."""
    view = node.look()
    return {
        "changed": False,
        "gpus": account_rows(view),
        "holders": holder_rows(view.holders),
        "launches": launch_rows(view.launches),
        "table": holder_table(view),
        "container_running": node.container_running if node.container is not None else None,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=node_arguments(),
        required_if=[("ownership", "container", ("vmid",))],
        supports_check_mode=True,
    )
    try:
        result = describe(node_from(module.params))
    except GpuError as error:
        module.fail_json(
            msg=error.message(), next_steps=error.next_steps, diagnosis=error.diagnosis, runbook=error.runbook
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
