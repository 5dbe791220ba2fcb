#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: make an EAGLE-3 draft's context length fit its target, and check that the draft is one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: draft_config
short_description: Make the context length of an EAGLE-3 draft model fit its target model
version_added: "0.1.0"
description:
  - SGLang builds the draft model with the context length of the target model. It refuses a draft whose C(config.json)
    gives less, and it does so only after the target's weights have been loaded.
  - This module derives both lengths by SGLang's own rules before anything is started, and deals with a clash by one of
    three strategies.
  - It also checks that the draft is an EAGLE-3 draft and fits the target, from C(config.json) and from the headers of
    the safetensors files. Some of these faults are silent in SGLang and show as an acceptance length of 1.
options:
  draft_path:
    description: Folder of the draft model.
    type: path
    required: true
  target_path:
    description: Folder of the target model. Needed unless O(state=reverted).
    type: path
  strategy:
    description:
      - What to do about a clash.
      - V(patch) raises the length in the draft's C(config.json). Only the bytes of the value change; the original is
        kept beside it as C(config.json.orig-HASH). In a Hugging Face cache the link in the snapshot is replaced, the
        shared blob stays as it is.
      - V(limit_context) writes nothing and requires that O(context_length) is within the draft's length.
      - V(allow_override) writes nothing and requires E(SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN) in
        O(server_environment).
    type: str
    choices: [patch, limit_context, allow_override]
    default: patch
  state:
    description:
      - V(patched) makes the pair fit by O(strategy).
      - V(reverted) puts the draft's original C(config.json) back and removes the backup.
    type: str
    choices: [patched, reverted]
    default: patched
  python:
    description: Python interpreter of the server, asked for SGLang's version when O(sglang_version) is not given.
    type: path
  sglang_version:
    description: SGLang's version. When it cannot be found out, the rules of all versions must hold.
    type: str
  context_length:
    description: The server's C(--context-length) in tokens. Not given means the target's own length.
    type: int
  server_environment:
    description: Additional environment of the server, in which the strategy V(allow_override) must find its variable.
    type: dict
    default: {}
  tp_size:
    description: The server's tensor parallel size.
    type: int
    default: 1
  checks:
    description: Whether findings of severity error fail the module (V(strict)) or are warned about (V(warn)).
    type: str
    choices: [strict, warn]
    default: strict
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Shows the changed lines.
    support: full
author:
  - SGLang EAGLE-3 operations maintainers
"""

EXAMPLES = r"""
- name: Make the draft fit the target
  sglang_ops.eagle3.draft_config:
    draft_path: /data/eagle3/output_100k_sglang/4
    target_path: /shared/kimi-k2.5-int4
    python: /root/ml-env/bin/python3
    tp_size: 8

- name: Serve no more tokens than the draft was made for
  sglang_ops.eagle3.draft_config:
    draft_path: /data/eagle3/output_100k_sglang/4
    target_path: /shared/kimi-k2.5-int4
    strategy: limit_context
    context_length: 131072

- name: Put the draft's own config.json back
  sglang_ops.eagle3.draft_config:
    draft_path: /data/eagle3/output_100k_sglang/4
    state: reverted
"""

RETURN = r"""
target_context_length:
  description: Context length in tokens that the target is served with.
  returned: state is patched
  type: int
  sample: 262144
draft_context_length:
  description: Context length in tokens that the draft gives, after the change.
  returned: state is patched
  type: int
  sample: 262144
trained_context_length:
  description: Context length in tokens of the draft's original config.json.
  returned: state is patched
  type: int
  sample: 131072
clash:
  description: Whether SGLang would have refused the pair before the change.
  returned: state is patched
  type: bool
strategy:
  description: The strategy that was given.
  returned: always
  type: str
  sample: patch
context_length:
  description: Context length that the server has to be given (--context-length), null for none.
  returned: state is patched
  type: int
environment:
  description: Environment variables that the server has to be given.
  returned: state is patched
  type: dict
sglang_version:
  description: The version whose rules were used, null when it is not known.
  returned: state is patched
  type: str
  sample: 0.5.15
changed_keys:
  description: Keys of the draft's config.json that changed, each with before and after.
  returned: always
  type: dict
  sample: {max_position_embeddings: {before: 131072, after: 262144}}
backup:
  description: The kept original, null for none.
  returned: always
  type: str
  sample: /data/eagle3/output_100k_sglang/4/config.json.orig-1f2e3d4c
findings:
  description: What the checks found.
  returned: state is patched
  type: list
  elements: dict
  contains:
    id: {description: Name of the check., type: str}
    severity: {description: error or warning., type: str}
    message: {description: What is wrong., type: str}
    remedy: {description: What to do., type: str}
notes:
  description: What to know about the result, also given as warnings.
  returned: always
  type: list
  elements: str
removed_leftovers:
  description: Temporary files of an interrupted run that were removed.
  returned: always
  type: list
  elements: str
"""

import contextlib
from pathlib import Path
from typing import Any, ContextManager, Dict, List, Mapping, Optional, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.atomic_file import (
    FileWriteError,
    directory_lock,
    remove_leftovers,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import (
    ContextLengthError,
    Version,
    derive_context_length,
    parse_version,
    rules_for,
    text_config,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.draft_assessment import (
    Contexts,
    clash_notes,
    compare_contexts,
    explicit_length_findings,
    inventory_lines,
    is_override_set,
    override_environment,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.draft_checks import DraftFacts, as_dicts, check_draft
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.draft_patch import (
    Backup,
    DraftPatchError,
    backup_path,
    changed_values,
    find_backup,
    raise_context_length,
    restore,
    stale_backups,
    write_patched,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.finding import Finding, error
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.json_edit import JsonDocument, JsonEditError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.python_site import InterpreterError, installed_version
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.safetensors_header import HeaderError, read_checkpoint

ARGUMENTS: Dict[str, Dict[str, Any]] = {
    "draft_path": {"type": "path", "required": True},
    "target_path": {"type": "path"},
    "strategy": {"type": "str", "choices": ["patch", "limit_context", "allow_override"], "default": "patch"},
    "state": {"type": "str", "choices": ["patched", "reverted"], "default": "patched"},
    "python": {"type": "path"},
    "sglang_version": {"type": "str"},
    "context_length": {"type": "int"},
    "server_environment": {"type": "dict", "default": {}},
    "tp_size": {"type": "int", "default": 1},
    "checks": {"type": "str", "choices": ["strict", "warn"], "default": "strict"},
}


class DraftConfigError(Exception):
    """The module has to stop; the message is for the operator, `result` goes with it."""

    def __init__(self, message: str, result: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        self.result = result or {}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result = run(module.params, module.check_mode)
    except DraftConfigError as problem:
        module.fail_json(msg=str(problem), **problem.result)
    except (ContextLengthError, DraftPatchError, FileWriteError, JsonEditError) as problem:
        module.fail_json(msg=f"{module.params['draft_path']}: {problem}")
    for note in result["notes"]:
        module.warn(note)
    if not module._diff:  # noqa: SLF001 (how a module learns of --diff)
        result.pop("diff", None)
    module.exit_json(**result)


def run(params: Dict[str, Any], check_mode: bool) -> Dict[str, Any]:
    """Do what the parameters ask for; returns the module's result.

    Raises:
        DraftConfigError: the pair does not fit, or something needed is missing.
        ContextLengthError, DraftPatchError, FileWriteError, JsonEditError: see their modules.
    """
    config = _config_path("draft_path", params["draft_path"])
    writes = not check_mode and (params["state"] == "reverted" or params["strategy"] == "patch")
    lock: ContextManager[None] = directory_lock(config.parent) if writes else contextlib.nullcontext()
    with lock:
        leftovers = remove_leftovers(config) if writes else []
        result = _revert(config, writes) if params["state"] == "reverted" else _fit(params, config, writes)
    return {
        **result,
        "changed": result["changed"] or bool(leftovers),
        "strategy": params["strategy"],
        "removed_leftovers": leftovers,
    }


def _fit(params: Dict[str, Any], config: Path, writes: bool) -> Dict[str, Any]:
    """Check the pair and make it fit by the strategy."""
    target = _read(_config_path("target_path", params["target_path"]))
    draft = _read(config)
    version, notes = _version(params)
    rules = rules_for(parse_version(version) if version else None)
    backup = find_backup(config, draft)
    original = JsonDocument.parse(backup.data) if backup else draft
    contexts = compare_contexts(draft.value, target.value, rules, params["context_length"])
    trained = min(derive_context_length(original.value, rule).length for rule in rules)
    strategy = params["strategy"]
    environment = params["server_environment"] or {}

    findings = explicit_length_findings(contexts, environment)
    findings += _check(config.parent, draft, text_config(target.value, rules[-1]), version, params["tp_size"])
    result: Dict[str, Any] = {
        "changed": False,
        "target_context_length": contexts.target,
        "draft_context_length": contexts.draft,
        "trained_context_length": trained,
        "clash": contexts.clash,
        "context_length": params["context_length"],
        "environment": {},
        "sglang_version": version,
        "changed_keys": {},
        "backup": str(backup.path) if backup else None,
        "findings": as_dicts(findings),
        "notes": notes + _stale_notes(config, backup),
    }
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors and params["checks"] == "strict":
        raise DraftConfigError(
            f"{config.parent} does not fit its target: " + " ".join(str(finding) for finding in errors), result
        )
    result["notes"] += [str(finding) for finding in findings]
    if contexts.target > trained:
        result["notes"] += clash_notes(contexts, trained=trained, strategy=strategy, draft=original.value, rules=rules)
    if strategy != "patch":
        if backup is not None and backup.data != draft.to_bytes():
            raise DraftConfigError(
                f"strategy {strategy} leaves files alone, but {config} is still patched (original: {backup.path}): "
                "run once with draft_config_state: reverted.",
                result,
            )
        result.update(_settings(strategy, contexts, environment))
    elif contexts.clash:
        patched = raise_context_length(draft, contexts.target, rules)
        result.update(_patch(config, draft, patched, backup, writes=writes))
        result["draft_context_length"] = min(derive_context_length(patched.value, rule).length for rule in rules)
    return result


def _patch(
    config: Path, draft: JsonDocument, patched: JsonDocument, backup: Optional[Backup], *, writes: bool
) -> Dict[str, Any]:
    """Put the patched document in the draft's place; returns what that adds to the result."""
    original = draft.to_bytes()
    path = backup.path if backup else backup_path(config, original)
    if writes:
        path = write_patched(config, original, patched.to_bytes(), backup)
    return {
        "changed": True,
        "changed_keys": _keys(draft, patched),
        "backup": str(path),
        "diff": _diff(config, draft, patched),
    }


def _settings(strategy: str, contexts: Contexts, environment: Dict[str, Any]) -> Dict[str, Any]:
    """Require the server settings of a strategy that writes nothing; returns what it adds to the result."""
    if not contexts.clash:
        return {}
    if strategy == "allow_override" and is_override_set(environment):
        return {"environment": override_environment()}
    raise DraftConfigError(
        f"the target is served with {contexts.target} tokens, the draft gives {contexts.draft}, and the server is not "
        f"told: put these two lines into the inventory:\n{inventory_lines(strategy, contexts)}"
    )


def _revert(config: Path, writes: bool) -> Dict[str, Any]:
    """Put the original back."""
    current = _read(config)
    backup = find_backup(config, current)
    stale = stale_backups(config, backup)
    if backup is None and stale:
        raise DraftConfigError(
            f"{config} was changed after it was patched and follows from none of {', '.join(stale)}: "
            "keep the one that you want as config.json and remove the others."
        )
    if backup is None:
        return {"changed": False, "changed_keys": {}, "backup": None, "notes": []}
    original = JsonDocument.parse(backup.data)
    if writes:
        restore(config, backup)
    return {
        "changed": True,
        "changed_keys": _keys(current, original),
        "backup": None if writes else str(backup.path),
        "notes": _stale_notes(config, backup),
        "diff": _diff(config, current, original),
    }


def _check(
    folder: Path, draft: JsonDocument, target: Mapping[str, Any], version: Optional[str], tensor_parallel_size: int
) -> List[Finding]:
    number: Optional[Version] = parse_version(version) if version else None
    if tensor_parallel_size < 1:
        raise DraftConfigError(f"tp_size is {tensor_parallel_size}: give the number of GPUs of the server, 1 or more.")
    try:
        checkpoint = read_checkpoint(folder)
    except HeaderError as problem:
        return [error("weights-damaged", str(problem).rstrip("."), "the tensors of the draft cannot be checked")]
    return check_draft(DraftFacts(draft.value, target, number, tensor_parallel_size), checkpoint)


def _version(params: Dict[str, Any]) -> Tuple[Optional[str], List[str]]:
    """SGLang's version and what to say when it is not known."""
    version: Optional[str] = params["sglang_version"] or None
    if version is not None:
        if parse_version(version) is None:
            raise DraftConfigError(f"sglang_version is {version}: give three numbers, such as 0.5.15.")
        return version, []
    if params["python"]:
        try:
            version = installed_version(params["python"], "sglang")
        except InterpreterError as problem:
            return None, [f"SGLang's version is not known, so the rules of all versions must hold: {problem}"]
        if version is not None and parse_version(version) is not None:
            return version, []
    return None, ["SGLang's version is not known, so the rules of all versions must hold; sglang_version sets it."]


def _config_path(option: str, folder: Optional[str]) -> Path:
    if not folder:
        raise DraftConfigError(f"{option} is empty: give the folder of the model.")
    if not Path(folder).is_dir():
        raise DraftConfigError(
            f"no such model path: {folder} ({option}); give a folder on this machine, not a name on a model hub."
        )
    config = Path(folder) / "config.json"
    if not config.exists():
        raise DraftConfigError(f"no config.json in {folder} ({option}): is it a whole model folder?")
    return config


def _read(config: Path) -> JsonDocument:
    try:
        return JsonDocument.parse(config.read_bytes())
    except OSError as problem:
        raise DraftConfigError(f"cannot read {config}: {problem.strerror}.") from problem
    except JsonEditError as problem:
        raise DraftConfigError(f"{config}: {problem}; fetch the model again, or repair the file.") from problem


def _stale_notes(config: Path, backup: Optional[Backup]) -> List[str]:
    stale = stale_backups(config, backup)
    return (
        [f"{', '.join(stale)} belongs to an earlier config.json of this draft; remove it when it is not needed."]
        if stale
        else []
    )


def _keys(before: JsonDocument, after: JsonDocument) -> Dict[str, Dict[str, Any]]:
    return {key: {"before": old, "after": new} for key, (old, new) in changed_values(before, after).items()}


def _diff(config: Path, before: JsonDocument, after: JsonDocument) -> Dict[str, str]:
    """The changed lines; values are on one line each, so that lines correspond."""
    lines = zip(before.text.splitlines(), after.text.splitlines())  # noqa: B905 (Python 3.9)
    pairs = [pair for pair in lines if pair[0] != pair[1]]
    return {
        "before_header": str(config),
        "after_header": str(config),
        "before": "".join(f"{old}\n" for old, _ in pairs),
        "after": "".join(f"{new}\n" for _, new in pairs),
    }


if __name__ == "__main__":
    main()
