#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: the user that a server can run as."""

from __future__ import annotations

DOCUMENTATION = r"""
module: service_account_info
short_description: Find the user that the server can run as
version_added: "0.1.0"
description:
  - Tries as the user what the server will do, that is start the interpreter, read the models, use the devices.
  - Without O(user), the answer is O(candidate) when it exists and can do all of it, and root otherwise. A server needs
    no right of root, but a virtual environment below C(/root) can be read by nobody else.
options:
  user:
    description: The user that was asked for; the module fails when it cannot run the server. Empty leaves the choice.
    type: str
    default: ""
  candidate:
    description: The unprivileged user to prefer.
    type: str
    default: sglang
  python:
    description: Python interpreter of the serving environment.
    type: path
    required: true
  readable:
    description: Files and directories to read. Those that do not exist are left to the server.
    type: list
    elements: str
    default: []
  devices:
    description: Devices to use, as names in C(/dev) that may hold wildcards.
    type: list
    elements: str
    default: ["nvidiactl", "nvidia-uvm", "nvidia[0-9]*"]
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
- name: Find the user to run the server as
  sglang_ops.eagle3.service_account_info:
    python: /opt/ml-env/bin/python3
    readable: [/shared/kimi-k2.5-int4]
"""

RETURN = r"""
user:
  description: The user to run as.
  returned: success
  type: str
  sample: sglang
group:
  description: Its primary group.
  returned: success
  type: str
  sample: sglang
home_writable:
  description: Whether it can write to its home directory.
  returned: success
  type: bool
notice:
  description: Why it is root, in one sentence; empty when it is not, or when root was asked for.
  returned: success
  type: str
"""

from pathlib import Path
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.service_account import (
    Account,
    AccountError,
    examine,
    exists,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.wording import as_sentence

ROOT = "root"

ARGUMENTS: Dict[str, Dict[str, Any]] = {
    "user": {"type": "str", "default": ""},
    "candidate": {"type": "str", "default": "sglang"},
    "python": {"type": "path", "required": True},
    "readable": {"type": "list", "elements": "str", "default": []},
    "devices": {
        "type": "list",
        "elements": "str",
        "default": ["nvidiactl", "nvidia-uvm", "nvidia[0-9]*"],
    },
}


def run(parameters: Dict[str, Any]) -> Dict[str, Any]:
    """Choose, and return the module's result.

    Raises:
        AccountError: the user that was asked for does not exist or cannot run the server.
    """
    wanted, candidate = parameters["user"], parameters["candidate"]
    if wanted == ROOT:
        return _root("")
    if not wanted and not exists(candidate):
        return _root(f"SGLang runs as root, because there is no user {candidate}.")
    devices: List[str] = [str(path) for pattern in parameters["devices"] for path in sorted(Path("/dev").glob(pattern))]
    account = examine(wanted or candidate, parameters["python"], parameters["readable"], devices)
    if not account.refused:
        return _result(account, "")
    sentence = f"the user {account.name} cannot {', '.join(account.refused)}"
    if wanted:
        raise AccountError(f"{sentence}: give it access, or set sglang_server_user to root")
    return _root(f"SGLang runs as root, because {sentence}.")


def _root(notice: str) -> Dict[str, Any]:
    return _result(Account(ROOT, ROOT, "/root", home_writable=True, refused=()), notice)


def _result(account: Account, notice: str) -> Dict[str, Any]:
    return {
        "changed": False,
        "user": account.name,
        "group": account.group,
        "home_writable": account.home_writable,
        "notice": notice,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result = run(module.params)
    except AccountError as error:
        module.fail_json(msg=as_sentence(error))
    if result["notice"]:
        module.warn(result["notice"])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
