"""Find out from a log why a launch of SGLang failed, or that it did not (pure).

Every line that a signature knows is a finding. What names a cause stands before what merely follows from another
process's failure; among equals the first one decides, because the other ranks fail after it. What the log does not say
is not guessed: the class is then `unknown`, with the phase.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Optional, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import CLASSES, runbook
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_findings import Finding, Findings, collect
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_lines import LogLine, parse_line
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import (
    CAUSE,
    DRAFT_UNWIRED,
    GENERAL,
    HEALTHY,
    HIGH,
    LOW,
    MEDIUM,
    NO_PHASE,
    SLOW_SPEC,
    UNKNOWN,
    Diagnosis,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_order import oldest_first
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_phase import is_before
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_serving import Acceptance

NEAR_LINES = 40
"""A warning that healthy servers print too counts as a cause when it stands this near to the failure."""
LONGEST_CAUSE = 2000
_SERVED_ENOUGH = 3
_VERSION = re.compile(
    r"(?:sglang(?:\[\w+\])?(?:==|[ -]v?|: ?|:v|/)|SGLang v?|sglang_version['\"]?[=:] ?['\"]?)"
    r"(\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)\b"
)


def diagnose_text(lines: Sequence[str]) -> Diagnosis:
    """Return why the launch failed whose log these lines are, oldest first or newest first."""
    acceptance = Acceptance()
    parsed = []
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        line = parse_line(number, text)
        parsed.append(line)
        # The server's arguments are longer than what is kept of a line.
        is_long = line.message.startswith("server_args=")
        acceptance.take(number, text[text.find("server_args=") :] if is_long else line.message)
    return diagnose(parsed, acceptance)


def diagnose(lines: Sequence[LogLine], acceptance: Acceptance) -> Diagnosis:
    """Return why the launch failed whose log these lines are.

    Args:
        lines: the log or the part of it that matters.
        acceptance: what its decode lines say.
    """
    ordered = oldest_first(lines)
    findings = collect(ordered)
    chosen = _choose(findings, acceptance, reversed_order=bool(lines) and ordered[0] is not lines[0])
    version = _version(ordered)
    if chosen is not None:
        return _result(chosen, findings, version)
    without = dataclasses.replace(_without_failure(findings, acceptance), version=version)
    if without.failure_class == UNKNOWN and findings.at_the_end is not None and not findings.fatal:
        return _result(findings.at_the_end, findings, version)
    return without


def _choose(findings: Findings, acceptance: Acceptance, *, reversed_order: bool) -> Optional[Finding]:
    """Return the finding that decides, None when nothing failed."""
    found = [item for item in findings.items if item.index >= findings.serving_from or item.outside]
    found = [dataclasses.replace(item, warning=True) if _went_on(item, findings) else item for item in found]
    if not findings.is_fatal_after(findings.serving_from):
        # A server that went on working did not fail of it; a GPU's fault stays one.
        active = 0 if reversed_order else max(acceptance.last_number, findings.last_activity)
        found = [item for item in found if item.line.number > active or item.outside]
    failures = [item for item in found if not item.warning]
    if not failures:
        if findings.serving_from >= 0 or acceptance.decode_lines or findings.fatal:
            return None
        return _first(found)
    begin = min(item.index for item in failures)
    near = [item for item in found if item.warning and abs(item.index - begin) <= NEAR_LINES]
    chosen = _first(failures + near)
    if chosen is not None and chosen.failure_class == "serving-ima":
        early = [item for item in findings.items if item.identifier == "draft-context/overwritten"]
        if early:
            return dataclasses.replace(early[0], confidence=MEDIUM, phase=chosen.phase)
    return chosen


def _went_on(item: Finding, findings: Findings) -> bool:
    """Say whether the launch reached a further phase after a log line; an exception's own lines carry no stamp."""
    return bool(item.line.time) and is_before(item.reached, findings.reached)


def _first(found: Sequence[Finding]) -> Optional[Finding]:
    return min(found, key=lambda item: (item.strength, item.warning, item.index), default=None)


def _result(chosen: Finding, findings: Findings, version: Optional[str]) -> Diagnosis:
    confidence = chosen.confidence
    if confidence == HIGH:
        rivals = {
            item.failure_class
            for item in findings.items
            if not item.warning
            and item is not chosen
            and (item.strength == CAUSE or (item.strength == GENERAL and item.index < chosen.index - 1))
        }
        if rivals - {chosen.failure_class}:
            confidence = MEDIUM
    return Diagnosis(
        failure_class=chosen.failure_class,
        cause=chosen.line.message.strip()[:LONGEST_CAUSE],
        remedy=CLASSES[chosen.failure_class].remedy_in(chosen.phase),
        phase=chosen.phase,
        confidence=confidence,
        version=version,
        line_number=chosen.line.number,
        rank=chosen.line.rank or chosen.rank,
        runbook=runbook(chosen.failure_class),
    )


def _without_failure(findings: Findings, acceptance: Acceptance) -> Diagnosis:
    """Return the diagnosis of a log in which no failure was found."""
    works = bool(
        findings.serving_from >= 0
        or acceptance.decode_lines
        or findings.requests_answered + acceptance.answered_requests >= _SERVED_ENOUGH
    )
    phase = "serving" if works else findings.phase
    if findings.fatal or not works:
        return _verdict(UNKNOWN, "", findings.phase, LOW)
    if acceptance.nothing_accepted:
        return _verdict(DRAFT_UNWIRED, acceptance.sentence, phase, HIGH if acceptance.length else MEDIUM)
    if acceptance.low:
        return _verdict(SLOW_SPEC, acceptance.sentence, phase, MEDIUM)
    return _verdict(HEALTHY, acceptance.sentence if acceptance.length else "", phase, HIGH)


def _verdict(failure_class: str, cause: str, phase: str, confidence: str) -> Diagnosis:
    return Diagnosis(
        failure_class=failure_class,
        cause=cause,
        remedy=CLASSES[failure_class].remedy_in(phase),
        phase=phase,
        confidence=confidence,
        runbook=runbook(failure_class),
    )


def unknown(cause: str, phase: str = NO_PHASE) -> Diagnosis:
    """Return the diagnosis that nothing is known but this."""
    return _verdict(UNKNOWN, cause, phase, LOW)


def known_failure(failure_class: str, cause: str, phase: str = NO_PHASE, remedy: str = "") -> Diagnosis:
    """Return the diagnosis of something that was seen elsewhere than in the log."""
    verdict = _verdict(failure_class, cause, phase, HIGH)
    return dataclasses.replace(verdict, remedy=remedy) if remedy else verdict


def _version(lines: Sequence[LogLine]) -> Optional[str]:
    matches = (_VERSION.search(line.message) for line in lines)
    return next((match.group(1) for match in matches if match is not None), None)
