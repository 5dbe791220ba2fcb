"""All signatures, and which of them a line matches (pure)."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils import (
    diagnosis_signatures_devices,
    diagnosis_signatures_draft,
    diagnosis_signatures_kernels,
    diagnosis_signatures_memory,
    diagnosis_signatures_node,
    diagnosis_signatures_peers,
    diagnosis_signatures_settings,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import GRAPH_PHASES, Signature

# Within one line the first that matches decides: what names a cause stands before what can have several.
SIGNATURES: Tuple[Signature, ...] = (
    *diagnosis_signatures_draft.SIGNATURES,
    *diagnosis_signatures_settings.SIGNATURES,
    *diagnosis_signatures_memory.SIGNATURES,
    *diagnosis_signatures_kernels.SIGNATURES,
    *diagnosis_signatures_peers.SIGNATURES,
    *diagnosis_signatures_devices.SIGNATURES,
    *diagnosis_signatures_node.SIGNATURES,
)

# Lines that hold the words of a failure and mean none: settings, advice, and imports SGLang can do without.
_HARMLESS = re.compile(
    r"\bServerArgs\(|EngineArgs\(|Initializing an? (?:V1 )?LLM engine|non-default args: "
    r"|^server_args=|Ignore import error|Setup Custom allreduce failed|Custom allreduce is disabled"
    r"|Failed to load generation config|^Command line arguments|^Namespace\("
    r"|^\s*\d\. (?:set|disable|decrease|reduce) "
    r"|(?:SIGQUIT received|Received sigquit)|kill_process_tree called"
    r"|CUDA kernel errors might be asynchronously reported|Compile with `TORCH_USE_CUDA_DSA`"
)
_FRAME = re.compile(r'^\s*File "|^\s*[~^]+\s*$')
# What a traceback quotes: the source of `raise RuntimeError(f"NCCL error: {text}")` is no message.
_SOURCE = re.compile(r"^\s+(?!(?:size mismatch|Missing key|Unexpected key))\S")
_WRAPPER = re.compile(r"[Cc]apture (?:[\w ]+ )?(?:cuda|CUDA) ?graphs? failed: ")


def is_harmless(message: str) -> bool:
    """Say whether a line means no failure, whatever words it holds."""
    return _HARMLESS.search(message) is not None or _FRAME.match(message) is not None


def match(message: str, phase: str, *, quoted: bool = False) -> Optional[Signature]:
    """Return the signature of a message, None when there is none.

    Args:
        message: a line's text without prefixes.
        phase: where the launch stood.
        quoted: whether the line is source quoted by a traceback; then only signatures about source lines count.
    """
    if is_harmless(message):
        return None
    if _WRAPPER.search(message) and phase not in GRAPH_PHASES:
        # Capturing belongs to the graph phases, even when the log does not show their begin.
        phase = GRAPH_PHASES[0]
    for signature in SIGNATURES:
        if signature.phases and phase not in signature.phases:
            continue
        if quoted and not is_about_source(signature):
            continue
        if signature.pattern.search(message):
            return signature
    return None


def looks_quoted(message: str) -> bool:
    """Say whether an unstamped line is indented as the source lines of a traceback are."""
    return _SOURCE.match(message) is not None


def is_about_source(signature: Signature) -> bool:
    """Say whether a signature is recognised by the source line that failed: its exception carries no text."""
    return signature.example.startswith(("assert ", "config_class = "))
