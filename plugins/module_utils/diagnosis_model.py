"""What a diagnosis knows and says: signatures, classes of failure, and the result (pure)."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, Optional, Tuple

HIGH, MEDIUM, LOW = "high", "medium", "low"
CONFIDENCES = (HIGH, MEDIUM, LOW)

# How much a line says about why. A line of a lower rank decides before one of a higher rank, whatever came first.
CAUSE = 0
"""Names the cause itself."""
GENERAL = 1
"""Names what happened, which can have several causes (a NCCL error, a watchdog)."""
UNEXPLAINED = 2
"""An exception that no signature knows."""
FOLLOWS = 3
"""Normally the consequence of another process's failure; only believed when nothing else is found."""

UNKNOWN = "unknown"
HEALTHY = "healthy"
SLOW_SPEC = "slow-spec"
DRAFT_UNWIRED = "draft-unwired"

NO_PHASE = "unknown"
"""Phase of a log that holds no line of SGLang's start (a kernel log, Ansible's output)."""
GRAPH_PHASES = ("target_graphs", "draft_graphs")
LOADING_PHASES = ("starting", "distributed_init", "weights", "draft_weights", "memory_pool", NO_PHASE)


@dataclasses.dataclass(frozen=True)
class Signature:
    """One sign of one class of failure. Adding one is one entry here and one line of example.

    Attributes:
        identifier: unique name, "<class>/<what>".
        pattern: searched in a message, after `diagnosis_lines` took prefixes away.
        example: a line that it matches.
        source: where the wording stands, so that it can be checked again.
        versions: versions of that source that have this wording.
        strength: `CAUSE`, `GENERAL` or `FOLLOWS`.
        confidence: how sure the class is when the pattern matches.
        phases: phases in which the pattern means this class; () for all.
        warning: healthy servers print it too; it counts only right beside a failure.
        at: phase that the message itself tells, "" for that of the launch.
        only_at_the_end: it is the last thing a launch does that goes on; it counts only when nothing comes after it and
            nothing else failed.
    """

    identifier: str
    pattern: re.Pattern[str]
    example: str
    source: str
    versions: str = "all seen"
    strength: int = CAUSE
    confidence: str = HIGH
    phases: Tuple[str, ...] = ()
    warning: bool = False
    at: str = ""
    only_at_the_end: bool = False

    @property
    def failure_class(self) -> str:
        """Class of failure, the part of the identifier before the slash."""
        return self.identifier.partition("/")[0]


def signature(
    identifier: str,
    pattern: str,
    example: str,
    source: str,
    **more: Any,  # noqa: ANN401 - fields of Signature
) -> Signature:
    """Return a signature whose pattern is given as text."""
    return Signature(identifier, re.compile(pattern), example, source, **more)


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """Why a launch failed, or that it did not.

    Attributes:
        failure_class: identifier of the class (`diagnosis_classes.CLASSES`).
        cause: the line that says so, "" when the log does not say.
        remedy: what to do in this phase, as one imperative phrase.
        phase: where the launch stood when it failed.
        confidence: "high", "medium" or "low".
        version: SGLang's version when the log shows it.
        line_number: of the cause in the log, counted from 1.
        rank: "TP3", "DP0 TP0" …, "" when the line carries none.
        runbook: page about the class, relative to the repository.
    """

    failure_class: str
    cause: str
    remedy: str
    phase: str = NO_PHASE
    confidence: str = LOW
    version: Optional[str] = None
    line_number: Optional[int] = None
    rank: str = ""
    runbook: str = ""

    @property
    def is_problem(self) -> bool:
        """Whether there is something to do."""
        return self.failure_class != HEALTHY

    def document(self) -> Dict[str, Any]:
        """Return the diagnosis as it is printed in JSON."""
        return {
            "class": self.failure_class,
            "phase": self.phase,
            "cause": self.cause,
            "remedy": self.remedy,
            "confidence": self.confidence,
            "version": self.version,
            "line_number": self.line_number,
            "rank": self.rank,
            "runbook": self.runbook,
        }
