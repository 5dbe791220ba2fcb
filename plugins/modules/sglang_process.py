#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: start and stop an SGLang server without systemd."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_process
short_description: Start and stop an SGLang server without systemd
description:
  - Starts the server in a session of its own, with standard output and error appended to a log, and records the launch
    in C(launch.json) of the state directory.
  - A live launch that was made from the same command line, environment and input files is left alone.
  - Nothing is stopped or started when the launch could not succeed (missing interpreter or model, port of somebody
    else).
version_added: 0.1.0
author: SGLang EAGLE-3 operations maintainers (@sglang-ops)
options:
  state:
    description:
      - V(started) makes sure that this launch runs, V(restarted) makes a new one in any case, V(stopped) ends it.
    type: str
    choices: [started, stopped, restarted]
    default: started
  state_dir:
    description: Directory of the launch record, the exit status and the lock. Made when missing.
    type: path
    required: true
  argv:
    description: Command line. The first word is the absolute path of the interpreter. Required unless O(state=stopped).
    type: list
    elements: str
    default: []
  environment:
    description: Variables on top of PATH, HOME and LANG; nothing of the caller's environment reaches the server.
    type: dict
    default: {}
  secret_environment:
    description: More of O(environment), with values that must not be shown.
    type: dict
    default: {}
  log_file:
    description: Log of the launch. Required unless O(state=stopped).
    type: path
  log_keep:
    description: How many logs of earlier launches stay, as C(log.1) and so on.
    type: int
    default: 3
  host:
    description: Address the server binds, to see beforehand whether it can.
    type: str
    default: 0.0.0.0
  port:
    description: TCP port of the server. Required unless O(state=stopped).
    type: int
  owner:
    description: Who launches it, kept in the record; empty outside of sweeps.
    type: str
    default: ""
  inputs:
    description: Files whose content belongs to the identity of the launch, for example the draft's C(config.json).
    type: list
    elements: path
    default: []
  model_paths:
    description: Models the server reads. Absolute paths must hold a C(config.json); others are left to SGLang.
    type: list
    elements: str
    default: []
  stop_timeout_s:
    description: Seconds between SIGTERM and SIGKILL.
    type: float
    default: 30
  lock_timeout_s:
    description: Seconds to wait for another run that works on the same state directory.
    type: float
    default: 60
attributes:
  check_mode:
    support: full
    description: Says what would happen and changes nothing.
  diff_mode:
    support: full
    description: Shows the launch before and after, one variable and one flag a line, secrets redacted.
"""

EXAMPLES = r"""
- name: Run the server
  sglang_ops.eagle3.sglang_process:
    state: started
    state_dir: /var/lib/sglang
    argv: [/root/ml-env/bin/python3, -m, sglang.launch_server, --model-path, /shared/kimi-k2.5-int4, --port, "8000"]
    environment:
      NCCL_PROTO: LL
    log_file: /var/log/sglang/server.log
    port: 8000

- name: Stop it
  sglang_ops.eagle3.sglang_process:
    state: stopped
    state_dir: /var/lib/sglang
"""

RETURN = r"""
launch:
  description: The launch that runs now, without its environment; null when none does.
  returned: success
  type: dict
  sample: {"pid": 4711, "session": 4711, "port": 8000, "manager": "process"}
failure:
  description: >-
    Why the launch failed: class, phase, cause, remedy, log_tail, survivors, exit_status, as in
    M(sglang_ops.eagle3.sglang_health).
  returned: failure
  type: dict
  sample: {"class": "port-in-use", "phase": "starting", "cause": "Port 8000 is in use by process 12 (nginx)."}
"""

from typing import TYPE_CHECKING, Any, Dict, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.atomic_file import FileWriteError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.detached_process import StartError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_files import (
    LaunchFileError,
    LaunchFiles,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_manager import (
    LaunchError,
    ProcessManager,
    WantedLaunch,
    describe,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import (
    redact_argv,
    redact_environment,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.wording import as_sentence

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_record import LaunchRecord

ARGUMENTS: Dict[str, Any] = {
    "state": {"type": "str", "choices": ["started", "stopped", "restarted"], "default": "started"},
    "state_dir": {"type": "path", "required": True},
    "argv": {"type": "list", "elements": "str", "default": []},
    "environment": {"type": "dict", "default": {}, "no_log": False},
    "secret_environment": {"type": "dict", "default": {}, "no_log": True},
    "log_file": {"type": "path"},
    "log_keep": {"type": "int", "default": 3},
    "host": {"type": "str", "default": "0.0.0.0"},  # noqa: S104 - the server's default, only tried here
    "port": {"type": "int"},
    "owner": {"type": "str", "default": ""},
    "inputs": {"type": "list", "elements": "path", "default": []},
    "model_paths": {"type": "list", "elements": "str", "default": []},
    "stop_timeout_s": {"type": "float", "default": 30.0},
    "lock_timeout_s": {"type": "float", "default": 60.0},
}
NEEDED_TO_RUN = ["argv", "log_file", "port"]


def wanted_launch(parameters: Dict[str, Any]) -> WantedLaunch:
    """Return the launch that the parameters describe."""
    return WantedLaunch(
        argv=parameters["argv"],
        environment={
            name: str(value)
            for name, value in {**parameters["environment"], **parameters["secret_environment"]}.items()
        },
        log_file=parameters["log_file"],
        log_keep=parameters["log_keep"],
        host=parameters["host"],
        port=parameters["port"],
        owner=parameters["owner"],
        inputs=parameters["inputs"],
        model_paths=[path for path in parameters["model_paths"] if path],
    )


def apply(parameters: Dict[str, Any], manager: ProcessManager, *, check_mode: bool) -> Dict[str, Any]:
    """Bring the launch into the wanted state and return the module's result.

    Raises:
        LaunchError: see `ProcessManager`.
    """
    record = manager.files.read()
    live = manager.is_live(record)
    before = describe(record.argv, record.environment) if record is not None and live else ""
    if parameters["state"] == "stopped":
        changed = bool(manager.members(record))
        if record is not None and not check_mode:
            manager.stop(record, parameters["stop_timeout_s"])
        return _result(before, "", None, changed=changed)

    wanted = wanted_launch(parameters)
    after = describe(redact_argv(wanted.argv), redact_environment(wanted.environment))
    same = record is not None and record.fingerprint == wanted.fingerprint()
    if live and same and parameters["state"] == "started":
        return _result(before, after, record, changed=False)
    if check_mode:
        return _result(before, after, record if live else None, changed=True)
    manager.check(wanted, record)
    if record is not None:
        manager.stop(record, parameters["stop_timeout_s"])
    return _result(before, after, manager.start(wanted), changed=True)


def _result(before: str, after: str, record: Optional[LaunchRecord], *, changed: bool) -> Dict[str, Any]:
    return {
        "changed": changed,
        "launch": None if record is None else record.public(),
        "diff": {"before": before, "after": after, "before_header": "running launch", "after_header": "wanted launch"},
    }


def failure(error: Exception) -> Dict[str, Any]:
    """Return a refused or failed launch in the form of sglang_health."""
    cause, _, remedy = str(error).rstrip(".").partition("; ")
    return {
        "class": getattr(error, "failure_class", "unknown"),
        "phase": "starting",
        "cause": as_sentence(cause),
        "remedy": as_sentence(remedy) if remedy else "",
        "log_tail": [],
        "survivors": [],
        "exit_status": None,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_if=[("state", "started", NEEDED_TO_RUN), ("state", "restarted", NEEDED_TO_RUN)],
    )
    files = LaunchFiles(module.params["state_dir"])
    manager = ProcessManager(files)
    try:
        if module.check_mode:
            result = apply(module.params, manager, check_mode=True)
        else:
            with files.lock(module.params["lock_timeout_s"]):
                result = apply(module.params, manager, check_mode=False)
    except (LaunchError, LaunchFileError, StartError, FileWriteError) as error:
        module.fail_json(msg=as_sentence(error), failure=failure(error))
    except OSError as error:
        module.fail_json(msg=f"Cannot use {error.filename}: {error.strerror}; run as a user who may.")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
