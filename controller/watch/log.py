"""The end of the server's log while somebody watches: lines to show, the phase of the start, a diagnosis on demand."""

from __future__ import annotations

import io
import time
from collections import deque

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import CLASSES
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import diagnose_file
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import LineAssembler, PhaseTracker

from controller.redaction import redact_text

KEPT_LINES = 4000
LAUNCH_BEGINS = "server_args=ServerArgs("
"""In the first line of every launch; a file that is appended to holds several."""


class WatchedLog:
    """The newest lines of one log. ``speculative`` tells how often weights are loaded in a start."""

    def __init__(self, *, speculative: bool = True) -> None:
        self.speculative = speculative
        self._begin()

    def _begin(self) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._assembler = LineAssembler()
        self._tracker = self._new_tracker()
        self.known = False

    def _new_tracker(self) -> PhaseTracker:
        # Begin of the launch: the stamps are of the target's clock, and only their order matters here.
        return PhaseTracker(0.0, speculative=self.speculative)

    def feed(self, text: str, *, fresh: bool) -> None:
        """Take more text in; ``fresh`` forgets what was before."""
        if fresh:
            self._begin()
        self.known = True
        for line in self._assembler.feed(text.encode()):
            self._lines.append(line)
            if LAUNCH_BEGINS in line:
                self._tracker = self._new_tracker()
            self._tracker.feed(line, time.time())

    @property
    def phase(self) -> str:
        """The furthest phase that the lines tell of; empty when there is no log."""
        return self._tracker.phase if self.known else ""

    @property
    def fatal(self) -> bool:
        """Whether a line says that the server does not survive."""
        return self._tracker.fatal

    def tail(self, count: int) -> list[str]:
        """Return the last lines, secrets replaced."""
        lines = list(self._lines)[-count:] if count > 0 else []
        return [redact_text(line) for line in lines]

    def diagnosis(self) -> list[tuple[str, str]]:
        """Return (name, words) of what these lines say about the server's health."""
        if not self._lines:
            return [("diagnosis", "there is no log to read")]
        found = diagnose_file(io.BytesIO("\n".join(self._lines).encode() + b"\n"))
        rows = [
            ("class", f"{found.failure_class}: {CLASSES[found.failure_class].meaning}"),
            ("phase", found.phase),
            ("cause", redact_text(found.cause)),
            ("remedy", found.remedy),
            ("confidence", found.confidence),
            ("runbook", found.runbook),
            ("read", f"the last {len(self._lines)} lines; more: python -m controller diagnose --host"),
        ]
        return [(name, words) for name, words in rows if words]
