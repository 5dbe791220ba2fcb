"""Say in one sentence what a watch has seen (pure)."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils import stall_evidence
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis import diagnose_text, known_failure, unknown
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import (
    DRAFT_UNWIRED,
    HEALTHY,
    MEDIUM,
    NO_PHASE,
    SLOW_SPEC,
    UNKNOWN,
    Diagnosis,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import redact_text
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import without_progress

NO_CAUSE = "no cause in the log"

LONGEST_CAUSE = 300
_SETTINGS_REMEDY = (
    "align the flags with what this SGLang version accepts, or set sglang_health_effective_mismatch: warn"
)
_SPINNING = "the log does not say; every GPU is busy at low power, so a collective waits for a peer"
# Where ranks wait for each other before anything was ever served.
_COLLECTIVE_PHASES = ("distributed_init", "target_graphs", "draft_graphs", "warmup")


def failure(
    *,
    phase: str,
    lines: Sequence[str],
    survivors: Sequence[Dict[str, Any]],
    exit_status: Optional[int],
    tail_lines: int,
    secrets: Sequence[str] = (),
    known: Optional[Diagnosis] = None,
    evidence: Optional[Dict[str, Any]] = None,
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
        evidence: what a launch that stands still is doing (`stall_evidence`).
    """
    found = known or diagnose_text(lines)
    if found.failure_class in (HEALTHY, SLOW_SPEC, DRAFT_UNWIRED) and known is None:
        # It served, and its log does not say why it does no longer.
        found = unknown("", phase)
    if found.failure_class == UNKNOWN and not found.cause and exit_status == 2:
        found = known_failure("spec-args", "", phase, "read the log: exit status 2 is that of a refused command line")
    if found.failure_class == UNKNOWN and not found.cause and evidence is not None and evidence["spinning"]:
        found = _of_busy_gpus(found, phase, len(evidence["gpus"]))
    stopped = stall_evidence.stopped_processes(evidence) if evidence else []
    if found.failure_class == UNKNOWN and not found.cause and stopped:
        found = _of_stopped(found, stopped)
    return {
        "class": found.failure_class,
        "phase": phase if found.phase in (NO_PHASE, "starting") else found.phase,
        "cause": redact_text(found.cause, secrets) or NO_CAUSE,
        "remedy": found.remedy,
        "confidence": found.confidence,
        "runbook": found.runbook,
        "log_tail": [redact_text(line, secrets)[:1000] for line in without_progress(lines)[-tail_lines:]],
        "survivors": list(survivors),
        "exit_status": exit_status,
        "evidence": evidence,
    }


def _of_busy_gpus(found: Diagnosis, phase: str, gpus: int) -> Diagnosis:
    """Return what it means that all GPUs spin: hanging peers, where nothing but a collective can be on them."""
    if gpus < 2 or phase not in _COLLECTIVE_PHASES:
        return found
    return dataclasses.replace(known_failure("p2p-hang", _SPINNING, phase), confidence=MEDIUM)


def _of_stopped(found: Diagnosis, stopped: Sequence[Dict[str, Any]]) -> Diagnosis:
    """Return that a signal holds processes, which nothing in a log can tell."""
    pids = " ".join(str(process["pid"]) for process in stopped)
    names = ", ".join(f"{process['name']} ({process['pid']})" for process in stopped[:3])
    more = f" and {len(stopped) - 3} more" if len(stopped) > 3 else ""
    return dataclasses.replace(
        found,
        cause=f"a signal (SIGSTOP) or a debugger holds {names}{more}",
        remedy=f"find out who did that and let go on with `kill -CONT {pids}` on the target, or restart the server",
    )


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
    seen = stall_evidence.summary(failed["evidence"]) if failed.get("evidence") else ""
    if seen:
        details.append(seen)
    cause = failed["cause"].rstrip(".")
    if len(cause) > LONGEST_CAUSE:
        cause = cause[:LONGEST_CAUSE].rstrip() + "…"
    return (
        f"SGLang {reason} in phase {failed['phase']}, {elapsed_s:.1f} s after its launch ({', '.join(details)}): "
        f"{cause}; remedy: {failed['remedy']}."
    )


def mismatch_cause(differences: Sequence[str]) -> Diagnosis:
    """Return the cause of a server that runs with other settings than those that were asked for."""
    return known_failure("spec-args", "; ".join(differences), "serving", _SETTINGS_REMEDY)
