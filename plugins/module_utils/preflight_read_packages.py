"""Ask the serving interpreter for its packages and, when need be, the launcher for its flags. Imports no torch."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_flags import parse_help
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_package_checks import Packages
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_command import (
    CommandNotFoundError,
    CommandTimeoutError,
    run_bounded,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.python_site import InterpreterError, answer_mark, ask

_PROBE = f"""
import importlib.metadata, importlib.util, json, os, re, sys
sys.path[:] = [entry for entry in sys.path if entry]
versions, requires = {{}}, []
for found in importlib.metadata.distributions():
    name = (found.metadata["Name"] or "").lower().replace("_", "-")
    versions.setdefault(name, found.version)
    if name == "sglang" and not requires:
        requires = found.requires or []
cuda = None
spec = importlib.util.find_spec("torch")
if spec and spec.origin:
    try:
        text = open(os.path.join(os.path.dirname(spec.origin), "version.py")).read()
        match = re.search(r"^cuda\\b[^=]*= *['\\"]([0-9.]+)", text, re.M)
        cuda = match.group(1) if match else None
    except OSError:
        pass
print("{answer_mark()}" + json.dumps(
    {{"versions": versions, "requires": requires, "torch_cuda": cuda}}))
"""


def read_packages(python: str, timeout_s: float) -> Packages:
    """Distributions of an interpreter; what went wrong is in the answer's `error`."""
    try:
        answer: Dict[str, Any] = ask(python, _PROBE, timeout_s=timeout_s)[-1]
    except InterpreterError as problem:
        return Packages(error=str(problem))
    versions = answer["versions"]
    return Packages(versions.get("sglang"), versions, answer["requires"], answer["torch_cuda"])


def ask_flags(python: str, timeout_s: float) -> Optional[FrozenSet[str]]:
    """The flags in the launcher's own --help (seconds: it imports torch); None when it does not answer."""
    try:
        result = run_bounded([python, "-m", "sglang.launch_server", "--help"], timeout_s)
    except (CommandNotFoundError, CommandTimeoutError):
        return None
    flags = parse_help(result.stdout)
    return flags if result.returncode == 0 and "--model-path" in flags else None
