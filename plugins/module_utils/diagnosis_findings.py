"""Walk through the lines of a log and collect what speaks for a failure (pure)."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, List, Optional, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_frames import FramesOfTraceback
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import (
    FOLLOWS,
    GENERAL,
    LOW,
    NO_PHASE,
    UNEXPLAINED,
    UNKNOWN,
    Signature,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_phase import PhaseFinder
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_signatures import (
    is_harmless,
    looks_quoted,
    match,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import is_fatal

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_lines import LogLine

# Classes that come from outside of the server: they stay true while it goes on serving.
_OUTSIDE = frozenset({"xid", "orphan", "controlpath"})
_FRAME = re.compile(r'^\s*File "')
_NCCL_CHATTER = "NCCL INFO"
_LAST_ERROR_LINES = 4
_TRACEBACK = "Traceback (most recent call last)"
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|OutOfResources|Failure|Abort|Timeout|Expired)(?::|$)"
)
# Exceptions that say that something else failed.
_SECOND_HAND = re.compile(
    r"^(?:EOFError|KeyboardInterrupt|SystemExit|\w*CancelledError|BrokenPipeError|ConnectionRefusedError"
    r"|ConnectionResetError|ConnectionAbortedError|(?:[\w.]+\.)?(?:ConnectionError|NewConnectionError|MaxRetryError"
    r"|ChildFailedError|ProcessExitedException|ProcessRaisedException|RayTaskError|RayActorError|ActorDiedError"
    r"|EngineDeadError|HTTPError|RemoteProtocolError|ConnectError|ReadTimeout|ReadError))\b"
    r"|(?:error messages|root cause|stack trace|details)\)? above|Engine (?:core )?(?:initialization|process) failed"
)
_DIED = re.compile(
    r"Subprocess \w+ \(pid=\d+\) crashed with exit code|scheduler (?:is dead|died)|^\W*[Ee]xit ?code:? -?[1-9]\d*"
)
_SERVES = re.compile(r"The server is fired up and ready to roll!")
_ANSWERED = re.compile(r'" 200 OK|Decode batch[.,]')
# A server that answered this often is known to serve.
_ENOUGH_ANSWERS = 20


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line that speaks for a class of failure.

    `index` is its place among the lines, oldest first; `reached` the furthest phase so far, `phase` that of the line.
    """

    index: int
    line: LogLine
    identifier: str
    strength: int
    confidence: str
    phase: str
    rank: str = ""
    warning: bool = False
    reached: str = NO_PHASE

    @property
    def failure_class(self) -> str:
        """Class of failure, the part of the identifier before the slash."""
        return self.identifier.partition("/")[0]

    @property
    def outside(self) -> bool:
        """Whether it is no failure of the server itself."""
        return self.failure_class in _OUTSIDE


@dataclasses.dataclass
class Findings:
    """What a log holds.

    Attributes:
        items: findings, oldest first.
        fatal: places of the messages that SGLang does not survive.
        serving_from: place of the message that the server is ready, -1 without one.
        last_activity: number of the last line that tells of an answered request.
        requests_answered: how many lines do.
        phase: phase of the first traceback, else the furthest.
        reached: the furthest phase.
        at_the_end: what the last lines say that nothing comes after, None when something does.
    """

    items: List[Finding] = dataclasses.field(default_factory=list)
    fatal: List[int] = dataclasses.field(default_factory=list)
    serving_from: int = -1
    last_activity: int = 0
    requests_answered: int = 0
    phase: str = NO_PHASE
    reached: str = NO_PHASE
    at_the_end: Optional[Finding] = None

    def is_fatal_after(self, index: int) -> bool:
        """Say whether SGLang died after this place."""
        return any(place >= index for place in self.fatal)


def collect(lines: Sequence[LogLine]) -> Findings:
    """Return what the lines, oldest first, hold."""
    walk = _Walk()
    for index, line in enumerate(lines):
        walk.take(index, line)
    walk.end_of_traceback()
    walk.findings.phase = walk.failed_in or walk.phases.phase
    walk.findings.reached = walk.phases.reached
    return walk.findings


class _Walk:
    def __init__(self) -> None:
        self.findings = Findings()
        self.phases = PhaseFinder()
        self._rank = ""
        self._in_scheduler = False
        self._in_traceback = False
        self._frames = FramesOfTraceback()
        self.failed_in = ""

    def end_of_traceback(self) -> None:
        """Note where the launch stood, for a traceback whose exception the log does not show."""
        if self._in_traceback and self._in_scheduler and not self.failed_in:
            self.failed_in = self.phases.phase
        self._in_traceback = False

    def take(self, index: int, line: LogLine) -> None:
        message = line.message
        if message.strip() and _NCCL_CHATTER not in message:
            self.findings.at_the_end = None
        if line.time:
            self.end_of_traceback()
            self._begin_block(line)
        if _FRAME.match(message):
            self._in_traceback = True
            self._frames.take(message)
        if _TRACEBACK in message:
            self._in_traceback = True
            self._frames.clear()
            self.phases.new_traceback()
        indented = not line.time and looks_quoted(message)
        if indented:
            self.phases.frame(message)
        elif self.findings.requests_answered < _ENOUGH_ANSWERS or _ANSWERED.search(message) is None:
            self.phases.message(message, line.rank)
        if self._look_at_life(index, line):
            return
        known = match(message, self.phases.phase, quoted=indented and self._in_traceback)
        if known is not None:
            self._add(index, line, known)
        elif not indented:
            self._look_at_exception(index, line)

    def _begin_block(self, line: LogLine) -> None:
        self.phases.seen = True
        self.phases.new_traceback()
        self._frames.clear()
        self._rank = line.rank
        self._in_scheduler = "Scheduler hit an exception" in line.message

    def _look_at_life(self, index: int, line: LogLine) -> bool:
        """Note messages about life and death; True when the line says nothing else."""
        findings = self.findings
        if is_fatal(line.message):
            findings.fatal.append(index)
        if _SERVES.search(line.message):
            findings.serving_from = index
            return True
        if _ANSWERED.search(line.message):
            findings.last_activity = line.number
            findings.requests_answered += 1
            return True
        return False

    def _add(self, index: int, line: LogLine, known: Signature) -> None:
        finding = self._finding(
            index, line, known.identifier, known.strength, known.confidence, phase=known.at, warning=known.warning
        )
        if finding.identifier == "peer-died/last-error":
            self._forget_nccl_error(index)
        if known.only_at_the_end:
            self.findings.at_the_end = finding
        else:
            self.findings.items.append(finding)

    def _forget_nccl_error(self, index: int) -> None:
        """The last error of a NCCL error, right below it, says that another process was first."""
        items = self.findings.items
        while items and items[-1].identifier == "nccl-system/error" and index - items[-1].index <= _LAST_ERROR_LINES:
            items.pop()

    def _look_at_exception(self, index: int, line: LogLine) -> None:
        message = line.message.strip()
        strength = self._strength(message)
        if strength is None or is_harmless(message):
            return
        identifier, confidence = f"{UNKNOWN}/exception", LOW
        place = self._frames.place_of(message) if strength < FOLLOWS else None
        if place is not None:
            identifier, confidence = place.identifier, place.confidence
        self.findings.items.append(self._finding(index, line, identifier, strength, confidence))

    def _finding(
        self,
        index: int,
        line: LogLine,
        identifier: str,
        strength: int,
        confidence: str,
        *,
        phase: str = "",
        warning: bool = False,
    ) -> Finding:
        return Finding(
            index=index,
            line=line,
            identifier=identifier,
            strength=strength,
            confidence=confidence,
            phase=phase or self.phases.phase,
            rank=self._rank,
            warning=warning,
            reached=self.phases.reached,
        )

    def _strength(self, message: str) -> Optional[int]:
        if _DIED.search(message):
            return FOLLOWS + 1
        if _EXCEPTION.match(message) is None:
            return None
        if _SECOND_HAND.search(message):
            return FOLLOWS + 2
        return GENERAL if self._in_scheduler else UNEXPLAINED
