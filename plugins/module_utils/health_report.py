"""Say in one sentence what a watch has seen (pure)."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import redact_text
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_failures import (
    NO_CAUSE,
    UNKNOWN,
    Cause,
    find_cause,
)

LONGEST_CAUSE = 300
_SETTINGS_REMEDY = (
    "align the flags with what this SGLang version accepts, or set sglang_health_effective_mismatch: warn"
)


def failure(
    *,
    phase: str,
    lines: Sequence[str],
    survivors: Sequence[Dict[str, Any]],
    exit_status: Optional[int],
    tail_lines: int,
    secrets: Sequence[str] = (),
    known: Optional[Cause] = None,
) -> Dict[str, Any]:
    """Return the `failure` of the module's result.

    Args:
        phase: where the launch stood.
        lines: its log.
        survivors: `{"pid": int, "name": str}` of its processes that still live.
        exit_status: of the launcher, negative for a signal, None when it is not known.
        tail_lines: how many of the last log lines to add.
        secrets: values to replace.
        known: the cause, when it does not stand in the log.
    """
    cause = known or find_cause(lines)
    if cause.failure_class == UNKNOWN and not cause.line and exit_status == 2:
        cause = Cause("spec-args", "", "read the log: exit status 2 is that of a refused command line")
    return {
        "class": cause.failure_class,
        "phase": phase,
        "cause": redact_text(cause.line, secrets) or NO_CAUSE,
        "remedy": cause.remedy,
        "log_tail": [redact_text(line, secrets)[:1000] for line in list(lines)[-tail_lines:]],
        "survivors": list(survivors),
        "exit_status": exit_status,
    }


def sentence(reason: str, elapsed_s: float, failed: Dict[str, Any], silent_s: float) -> str:
    """Return the one sentence that the failing task prints.

    Args:
        reason: "died", "lost its scheduler process 12", "was not ready 600 s after its launch" …
        elapsed_s: seconds since the launch.
        failed: see `failure`.
        silent_s: seconds since the log grew.
    """
    details: List[str] = [f"class {failed['class']}"]
    if failed["exit_status"] is not None:
        details.append(f"exit status {failed['exit_status']}")
    if failed["survivors"]:
        details.append(f"{len(failed['survivors'])} of its processes still live")
    if failed["cause"] == NO_CAUSE:
        details.append(f"the log has not grown for {silent_s:.0f} s")
    cause = failed["cause"].rstrip(".")
    if len(cause) > LONGEST_CAUSE:
        cause = cause[:LONGEST_CAUSE].rstrip() + "…"
    return (
        f"SGLang {reason} in phase {failed['phase']}, {elapsed_s:.1f} s after its launch ({', '.join(details)}): "
        f"{cause}; remedy: {failed['remedy']}."
    )


def mismatch_cause(differences: Sequence[str]) -> Cause:
    """Return the cause of a server that runs with other settings than those that were asked for."""
    return Cause("spec-args", "; ".join(differences), _SETTINGS_REMEDY)
