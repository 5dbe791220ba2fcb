"""Cleaning without being root: one command that sudo allows, which takes little and checks all of it.

A right to run Ansible's modules through sudo is a right to run any Python program as root. The helper is the way out:
what it cleans stands in a file that only root can write; a request may choose the mode and the patience, no more.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any, Dict, List

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError

SETTINGS = ("ownership", "vmid", "unit", "state_dir", "pct", "nvidia_smi", "gpu_uuids", "lock_file")
"""What root decides, in the helper's settings."""
FLAGS = ("check_mode", "fail_on_foreign", "allow_leak")
LONGEST_S = 3600.0
NUMBERS = {
    "grace_s": LONGEST_S,
    "kill_wait_s": LONGEST_S,
    "settle_s": LONGEST_S,
    "timeout_s": LONGEST_S,
    "idle_mib": 1048576.0,
}
"""What a caller may choose, and up to which value."""
MODES = ("orphans", "all")
_SPARE_S = 60.0


class RequestError(Exception):
    """A request that the helper does not take; the message is one sentence."""


def read_request(text: str, settings: Dict[str, Any]) -> Dict[str, Any]:
    """Return the parameters of the cleaning that is asked for, `check_mode` among them.

    Args:
        text: JSON of the request; at most the names of `FLAGS`, `NUMBERS`, ``mode`` and ``vmid``.
        settings: what root decided, see `SETTINGS`.

    Raises:
        RequestError: something else is asked for.
    """
    try:
        request = json.loads(text)
    except ValueError:
        raise RequestError("The request is not JSON.") from None
    if not isinstance(request, dict):
        raise RequestError("The request is not a JSON object.")
    unknown = sorted(set(request) - {*FLAGS, *NUMBERS, "mode", "vmid"})
    if unknown:
        raise RequestError(f"The helper does not let a caller choose {', '.join(unknown)}.")
    if request.get("mode") not in MODES:
        raise RequestError(f"The mode must be one of {', '.join(MODES)}.")
    if request.get("vmid") != settings.get("vmid"):
        raise RequestError(f"The helper cleans container {settings.get('vmid')}, not {request.get('vmid')}.")
    for name, most in NUMBERS.items():
        value = request.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
            raise RequestError(f"{name} must be a number from 0 to {most:g}.")
    for name in FLAGS:
        if not isinstance(request.get(name), bool):
            raise RequestError(f"{name} must be true or false.")
    return {**request, **{name: settings[name] for name in SETTINGS}}


def ask_helper(command: List[str], parameters: Dict[str, Any], *, check_mode: bool) -> Dict[str, Any]:
    """Have the helper clean and return its result, that of `gpu_cleaning.clean`.

    Raises:
        GpuError: it may not be run, takes too long or answers with something else.
    """
    request = {name: parameters[name] for name in (*FLAGS[1:], *NUMBERS, "mode", "vmid")}
    patience_s = sum(parameters[name] for name in ("grace_s", "kill_wait_s", "settle_s")) * 2 + _SPARE_S
    try:
        done = subprocess.run(
            command,
            input=json.dumps({**request, "check_mode": check_mode}),
            capture_output=True,
            text=True,
            timeout=patience_s,
            check=False,
        )
        answer = json.loads(done.stdout) if done.stdout else None
    except subprocess.TimeoutExpired:
        raise _trouble(command, f"has not answered for {patience_s:g} s") from None
    except (OSError, ValueError) as error:
        raise _trouble(command, f"cannot be used ({error})") from error
    if not isinstance(answer, dict) or "msg" not in answer:
        raise _trouble(command, f"fails: {done.stderr.strip()[:300] or f'exit status {done.returncode}'}")
    return answer


def _trouble(command: List[str], what: str) -> GpuError:
    return GpuError(
        f"The helper {' '.join(command)} {what}.",
        ["install it with playbooks/reap_helper.yml as root", "sudo -l -U USER shows what its user may run"],
    )
