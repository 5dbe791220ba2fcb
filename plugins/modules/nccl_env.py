#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: give NCCL's variables to every process of a serving venv, and prove that they arrive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_env
short_description: Give NCCL's environment variables to every Python process of a venv
version_added: "0.1.0"
description:
  - Writes environment variables into a start-up file of a Python venv, so that each of its processes has them, whoever
    starts it.
  - A variable that is set already keeps its value. A launcher's own value therefore wins.
  - Starts the interpreter with none of the variables set and lets it spawn a child and a grandchild, as SGLang spawns
    its schedulers. The module fails when one of them does not see a value, in Python or in C.
options:
  python:
    description: Python interpreter of the venv. It is asked for its site-packages.
    type: path
    required: true
  variables:
    description: The variables. Not needed when O(state=absent).
    type: dict
    default: {}
  method:
    description:
      - V(sitecustomize) writes a marked block into C(sitecustomize.py) of the venv.
      - V(pth) writes C(zz_sglang_nccl_env.pth) into its site-packages.
      - V(auto) takes V(sitecustomize) unless a file of somebody else is there, or comes first on the path as on Debian
        and Ubuntu; then V(pth).
    type: str
    choices: [auto, sitecustomize, pth]
    default: auto
  state:
    description: V(present) writes, V(absent) removes what was written and leaves the rest as it was.
    type: str
    choices: [present, absent]
    default: present
  unset:
    description:
      - Variables that the launch to come leaves out, so that NCCL's own defaults hold for it. The files stay as they
        are; a launch asks with the environment variable C(EAGLE3_OPS_UNSET), which role C(sglang_server) sets.
      - Named here they are proved to be absent from a launch that asks so.
    type: list
    elements: str
    default: []
  prove:
    description: Whether to prove that the values arrive. In check mode that is skipped when a file would change.
    type: bool
    default: true
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Shows the files before and after.
    support: full
author:
  - SGLang EAGLE-3 operations maintainers
"""

EXAMPLES = r"""
- name: Give NCCL's variables to the serving venv
  sglang_ops.eagle3.nccl_env:
    python: /root/ml-env/bin/python3
    variables:
      NCCL_PROTO: LL
      NCCL_ALGO: Ring
      NCCL_P2P_LEVEL: SYS

- name: Remove them
  sglang_ops.eagle3.nccl_env:
    python: /root/ml-env/bin/python3
    state: absent
"""

RETURN = r"""
method:
  description: The method that was used, null when state is absent.
  returned: always
  type: str
  sample: pth
reason:
  description: Why sitecustomize.py could not be used, empty when it could.
  returned: always
  type: str
  sample: this Python imports /usr/lib/python3.11/sitecustomize.py before it
file:
  description: The file with the variables, null when state is absent.
  returned: always
  type: str
  sample: /root/ml-env/lib/python3.11/site-packages/zz_sglang_nccl_env.pth
python_version:
  description: Version of the interpreter.
  returned: always
  type: str
  sample: 3.11.2
left_out:
  description: The variables that were proved to be absent from a launch that leaves them out.
  returned: when the proof ran
  type: list
  elements: str
  sample: [NCCL_ALGO]
proof:
  description: >-
    For each variable what was expected, what the interpreter, its child and its grandchild saw, and whether it arrived.
  returned: when the proof ran
  type: dict
  sample:
    NCCL_PROTO:
      expected: LL
      arrived: true
      parent: {os.environ: LL, getenv: LL}
      child: {os.environ: LL, getenv: LL}
      grandchild: {os.environ: LL, getenv: LL}
"""

import contextlib
from typing import TYPE_CHECKING, Any, ContextManager, Dict, List, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.atomic_file import (
    FileWriteError,
    directory_lock,
    remove_file,
    remove_leftovers,
    replace_file,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.nccl_proof import (
    failures,
    prove,
    prove_left_out,
    summarize,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.nccl_startup_files import (
    PTH,
    SITECUSTOMIZE,
    VariableError,
    check_names,
    check_variables,
    pth_text,
    reasons_against_sitecustomize,
    with_block,
    without_block,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.python_site import (
    InterpreterError,
    PythonSite,
    inspect_site,
)

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS: Dict[str, Dict[str, Any]] = {
    "python": {"type": "path", "required": True},
    "variables": {"type": "dict", "default": {}},
    "method": {"type": "str", "choices": ["auto", "sitecustomize", "pth"], "default": "auto"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "unset": {"type": "list", "elements": "str", "default": []},
    "prove": {"type": "bool", "default": True},
}


class NcclEnvError(Exception):
    """The module has to stop; the message is for the operator, `result` goes with it."""

    def __init__(self, message: str, result: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        self.result = result or {}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result = run(module.params, module.check_mode)
    except NcclEnvError as problem:
        module.fail_json(msg=str(problem), **problem.result)
    except (FileWriteError, InterpreterError, VariableError) as problem:
        module.fail_json(msg=str(problem))
    if not module._diff:  # noqa: SLF001 (how a module learns of --diff)
        result.pop("diff")
    module.exit_json(**result)


def run(params: Dict[str, Any], check_mode: bool) -> Dict[str, Any]:
    """Do what the parameters ask for; returns the module's result.

    Raises:
        NcclEnvError: the method is not possible here, or a value did not arrive.
        FileWriteError, InterpreterError, VariableError: see their modules.
    """
    python = params["python"]
    if not python:
        raise NcclEnvError("python is empty: give the path of the serving venv's python3.")
    present = params["state"] == "present"
    variables = check_variables(params["variables"] or {}) if present else {}
    site = inspect_site(python)
    lock: ContextManager[None] = contextlib.nullcontext() if check_mode else _locked(site.site_packages)
    with lock:
        return _apply(params, site, variables, check_mode=check_mode)


def _apply(params: Dict[str, Any], site: PythonSite, variables: Dict[str, str], *, check_mode: bool) -> Dict[str, Any]:
    """Bring both start-up files into the wanted state and prove the values."""
    own, pth = site.site_packages / SITECUSTOMIZE, site.site_packages / PTH
    before = {own: _read(own), pth: _read(pth)}
    imported = _imported(site, own)
    reasons = reasons_against_sitecustomize(before[own], str(own), imported)
    method = _method(params, site, reasons) if variables else None
    after = {
        own: with_block(before[own], variables) if method == "sitecustomize" else without_block(before[own]),
        pth: pth_text(variables) if method == "pth" else None,
    }
    changed = [path for path in after if after[path] != before[path]]
    leftovers: List[str] = []
    if not check_mode:
        leftovers = [name for path in after for name in remove_leftovers(path)]
        for path in changed:
            _write(path, after[path])
    chosen = {"sitecustomize": own, "pth": pth}.get(method or "")
    result: Dict[str, Any] = {
        "changed": bool(changed or leftovers),
        "method": method,
        "reason": "; ".join(reasons),
        "file": str(chosen) if chosen else None,
        "python_version": site.version,
        "diff": [_diff(path, before[path], after[path]) for path in changed],
    }
    if chosen and params["prove"] and not (check_mode and changed):
        _prove(params["python"], variables, str(chosen), result)
        _prove_left_out(params["python"], check_names(params["unset"]), result)
    return result


def _method(params: Dict[str, Any], site: PythonSite, reasons: List[str]) -> str:
    """The method to use.

    Raises:
        NcclEnvError: the wanted method cannot work with this Python.
    """
    method: str = params["method"]
    if method == "sitecustomize" and reasons:
        raise NcclEnvError(f"method sitecustomize cannot be used: {'; '.join(reasons)}. Use method auto or pth.")
    if site.no_site:
        raise NcclEnvError(
            f"{params['python']} is started with -S, so that it runs neither sitecustomize.py nor .pth files: "
            "give the interpreter itself, not a wrapper, or set the variables in the server's environment."
        )
    if not site.reads_site_packages:
        raise NcclEnvError(f"{site.site_packages} is not on the path of {params['python']}: give a venv's python3.")
    if method == "auto":
        return "pth" if reasons else "sitecustomize"
    return method


def _prove(python: str, variables: Dict[str, str], path: str, result: Dict[str, Any]) -> None:
    """Add the proof to the result.

    Raises:
        NcclEnvError: a value did not arrive.
    """
    reports = prove(python, variables)
    result["proof"] = summarize(reports, variables)
    sentences = failures(result["proof"], reports, path)
    if sentences:
        raise NcclEnvError(" ".join(sentences), result)


def _prove_left_out(python: str, names: List[str], result: Dict[str, Any]) -> None:
    """Add to the result which variables a launch can leave out.

    Raises:
        NcclEnvError: one of them is set all the same.
    """
    sentences = prove_left_out(python, names) if names else []
    if sentences:
        raise NcclEnvError(" ".join(sentences), result)
    result["left_out"] = names


def _locked(directory: Path) -> ContextManager[None]:
    if not directory.is_dir():
        raise NcclEnvError(f"{directory} does not exist: the venv is damaged, create it again.")
    return directory_lock(directory)


def _imported(site: PythonSite, own: Path) -> Optional[str]:
    """The sitecustomize that the interpreter imports, under the name `own` when it is that file."""
    if site.sitecustomize is None:
        return None
    same = site.sitecustomize.resolve() == own.resolve()
    return str(own if same else site.sitecustomize)


def _read(path: Path) -> Optional[str]:
    """Text of a file, None when there is none; bytes that are not UTF-8 survive a round trip."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise NcclEnvError(f"cannot read {path}: {problem.strerror}.") from problem


def _write(path: Path, text: Optional[str]) -> None:
    if text is None:
        remove_file(path)
    else:
        replace_file(path, text.encode("utf-8", "surrogateescape"))
    # Compiled code is found current by size and whole second: a value changed within the second would be missed.
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        remove_file(compiled)


def _diff(path: Path, before: Optional[str], after: Optional[str]) -> Dict[str, str]:
    return {
        "before_header": str(path),
        "after_header": str(path),
        "before": (before or "").encode("utf-8", "replace").decode(),
        "after": (after or "").encode("utf-8", "replace").decode(),
    }


if __name__ == "__main__":
    main()
