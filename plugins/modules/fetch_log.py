#!/usr/bin/python
# Licensed under the Apache License, Version 2.0 (see LICENSE)
# ruff: noqa: EXE001 - Ansible wants the interpreter line and runs the file through its own wrapper
"""Ansible module: copy a server's log to the controller, without the secrets that stand in it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fetch_log
short_description: Copy a server's log to the controller without its secrets
version_added: "0.1.0"
author:
  - SGLang EAGLE-3 operations maintainers (@sglang-ops)
description:
  - SGLang writes its settings with the API keys into its own log. This reads the log on the target, replaces what gives
    itself away as a secret (its name, its form, or one of O(secrets)) by C(REDACTED), and writes the rest to a file on
    the controller (mode 0600). What is secret never leaves the target.
  - The log is read block by block and sent compressed, so its size hardly matters.
options:
  src:
    description: The log on the target.
    type: path
    required: true
  dest:
    description: The file on the controller. Its directory is made when missing.
    type: path
    required: true
  secrets:
    description: Values known to be secret, replaced wherever they stand. Those shorter than 8 characters are not.
    type: list
    elements: str
    default: []
  tail_bytes:
    description: Only so much of the end of the log, from the beginning of a line; 0 for all of it.
    type: int
    default: 0
  fail_on_missing:
    description: Whether a log that does not exist is a failure.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Does nothing.
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Keep the log of the launch
  sglang_ops.eagle3.fetch_log:
    src: /var/log/sglang/sglang_baseline.log
    dest: ./server.log
    secrets: ["{{ sglang_server_api_key }}"]
"""

RETURN = r"""
found:
  description: Whether the log exists.
  returned: success
  type: bool
dest:
  description: The file on the controller.
  returned: when found
  type: str
size:
  description: Bytes in O(dest).
  returned: when found
  type: int
"""

import base64
import hashlib
import os
import zlib
from typing import Any, Dict, Iterator

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import redact_stream

BLOCK_BYTES = 1 << 18


def argument_spec() -> Dict[str, Any]:
    """The module's arguments."""
    return {
        "src": {"type": "path", "required": True},
        "dest": {"type": "path", "required": True},
        "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
        "tail_bytes": {"type": "int", "default": 0},
        "fail_on_missing": {"type": "bool", "default": False},
    }


def blocks(descriptor: int, tail_bytes: int) -> Iterator[bytes]:
    """Yield the log as it is now; a server may append to it meanwhile."""
    left = os.fstat(descriptor).st_size
    if 0 < tail_bytes < left:
        # One byte more, which says whether the first line is whole.
        os.lseek(descriptor, left - tail_bytes - 1, os.SEEK_SET)
        left = tail_bytes + 1
        first = os.read(descriptor, min(BLOCK_BYTES, left))
        left -= len(first)
        yield first.partition(b"\n")[2]
    while left > 0:
        block = os.read(descriptor, min(BLOCK_BYTES, left))
        if not block:
            return
        left -= len(block)
        yield block


def read_log(parameters: Dict[str, Any]) -> Dict[str, Any]:
    """Return the redacted log, compressed, as the action plugin expects it.

    Raises:
        OSError: the log exists and cannot be read.
    """
    try:
        descriptor = os.open(parameters["src"], os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return {"changed": False, "found": False}
    compressor = zlib.compressobj(6)
    try:
        redacted = redact_stream(blocks(descriptor, parameters["tail_bytes"]), parameters["secrets"])
        packed = [compressor.compress(block) for block in redacted]
    finally:
        os.close(descriptor)
    data = b"".join([*packed, compressor.flush()])
    # Ansible replaces secrets in results, and might find one in the packed text by chance.
    digest = hashlib.sha256(data).hexdigest()
    return {"changed": False, "found": True, "packed": base64.b64encode(data).decode(), "digest": digest}


def main() -> None:
    """Run the part on the target; the action plugin of the same name writes the file."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    source = module.params["src"]
    try:
        result = read_log(module.params)
    except OSError as error:
        module.fail_json(msg=f"The log {source} cannot be read: {error.strerror}; run as a user who may read it.")
    if not result["found"] and module.params["fail_on_missing"]:
        module.fail_json(
            msg=f"There is no log {source}; start the server with deploy.yml or set sglang_server_log_file."
        )
    if not result["found"]:
        module.warn(f"There is no log {source} any more: nothing was collected.")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
