"""What is known of the server, put together from events; and the one word for how it is. Pure: time comes in."""

from __future__ import annotations

import enum
from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Any

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import PHASES

from controller.redaction import redact
from controller.watch import events
from controller.watch.log import WatchedLog
from controller.watch.reading import Reading, ServerFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

HISTORY = 60
CYCLES = 10
"""The cycle time is a median of so many looks: a batch may change between the figures that it is made of."""
SERVING = "serving"
SILENT_LOOKS = 2
"""So many looks without an answer count as "does not answer": one may meet a garbage collection."""
ASK_AGAIN_S = 60.0
ASK_SOON_S = 5.0


class Condition(enum.StrEnum):
    """How the server is, in one word. All of them are shown; none is an error of the watching."""

    ASKING = "asking"  # nothing is known yet
    SERVING = "serving"
    STARTING = "starting"  # a launch is on its way; the phase says how far
    SILENT = "not answering"  # it should serve, and does not answer
    DEAD = "dead"  # the launch died; the diagnosis says why
    ABSENT = "no server"  # nothing was launched, or it was stopped
    UNREACHABLE = "unreachable"  # neither the server nor Ansible get through


class Watched:
    """Everything known of one server. ``take`` is the only way in.

    Args:
        simulated: whether the inventory is that of the simulated node.
    """

    def __init__(self, *, simulated: bool = False) -> None:
        self._simulated = simulated
        self.reading: Reading | None = None
        self.facts = ServerFacts()
        self.health: Mapping[str, Any] = {}
        self.access: events.Access | None = None
        self.gpus: tuple[events.Gpu, ...] = ()
        self.notes: dict[str, str] = {}
        self.log = WatchedLog()
        self.speeds: deque[float] = deque(maxlen=HISTORY)
        self._cycles: deque[float] = deque(maxlen=CYCLES)
        self.asked_at: float | None = None
        self._silent_looks = 0
        self._unreachable = ""
        self._went_or_came = False
        self._introduced = False

    def take(self, event: events.Event, now: float) -> None:
        """Take one event in; ``now`` is monotonic seconds."""
        if isinstance(event, events.ServerAnswered):
            self._answered(event)
        elif isinstance(event, events.ServerSilent):
            self._silent_looks += 1
            self.notes["server"] = event.sentence
            if self._silent_looks == SILENT_LOOKS:
                self._went_or_came = self.reading is not None
                self.reading = None
                self._cycles.clear()
        elif isinstance(event, events.FactsRead):
            # A server that introduces itself a second time is another one: it was away for less than two looks.
            self._went_or_came = self._went_or_came or self._introduced
            self._introduced, self.facts = True, event.facts
        elif isinstance(event, events.TargetAsked):
            self._asked(event, now)
        elif isinstance(event, events.LogGrew):
            self.log.feed(event.text, fresh=event.fresh)
            # Somebody writes where no server was: there is a new launch to learn about.
            self._went_or_came = self._went_or_came or self.condition in (Condition.ABSENT, Condition.DEAD)
        elif isinstance(event, events.GpusSeen):
            self.gpus = event.gpus
            self.notes["gpu"] = ""
        elif isinstance(event, events.TargetNote):
            self.notes[event.about] = event.sentence
            if event.about == "gpu":
                self.gpus = ()

    def _answered(self, event: events.ServerAnswered) -> None:
        if self.reading is None and self.asked_at is not None:
            # It came up while we watched: there is a new launch to learn about.
            self._went_or_came = not self.health.get("ready")
        self._silent_looks = 0
        self.reading = event.reading
        self.notes["server"] = event.note
        if event.reading.tokens_per_s is not None:
            self.speeds.append(event.reading.tokens_per_s if event.reading.running != 0 else 0.0)
        if event.reading.cycle_s is None:
            self._cycles.clear()
        else:
            self._cycles.append(event.reading.cycle_s)

    def _asked(self, event: events.TargetAsked, now: float) -> None:
        self.asked_at, self._went_or_came = now, False
        self.health = redact(dict(event.health))
        self.access = event.access or self.access
        self._unreachable = event.sentence
        argv = self.argv
        if argv:
            self.log.speculative = "--speculative-algorithm" in argv

    def wants_asking(self, now: float) -> bool:
        """Whether Ansible should look (again): at first, when the server went or came, now and then without one."""
        if self.asked_at is None:
            return True
        since = now - self.asked_at
        if self._went_or_came:
            return since >= ASK_SOON_S
        return self.reading is None and since >= ASK_AGAIN_S

    @property
    def condition(self) -> Condition:
        """How the server is."""
        if self.reading is not None:
            return Condition.STARTING if self.log.phase == "warmup" else Condition.SERVING
        if self.asked_at is None:
            return Condition.ASKING
        if not self.health:
            return Condition.UNREACHABLE
        if self.health.get("launch") is None:
            return Condition.ABSENT
        if self.health.get("dead"):
            return Condition.DEAD
        return Condition.SILENT if self.phase in ("", SERVING) else Condition.STARTING

    @property
    def phase(self) -> str:
        """The phase of the launch: what the log says, or what the health check saw, whichever is further."""
        if self.reading is not None:
            return "warmup" if self.log.phase == "warmup" else SERVING
        if self.health.get("dead"):
            return str((self.health.get("failure") or {}).get("phase") or "dead")
        known = [name for name in (self.log.phase, str(self.health.get("phase") or "")) if name in PHASES]
        if self.log.phase and self.log.phase != SERVING:
            return self.log.phase
        return max(known, key=PHASES.index, default="")

    @property
    def cycle_s(self) -> float | None:
        """Seconds of one verify cycle, the median of the last looks; None while nothing runs."""
        return median(self._cycles) if self._cycles else None

    @property
    def simulated(self) -> bool:
        """Whether the figures are simulated."""
        return self._simulated or self.facts.simulated

    @property
    def launch(self) -> Mapping[str, Any]:
        """The launch record; empty without one."""
        return self.health.get("launch") or {}

    @property
    def argv(self) -> list[str]:
        """The command line of the server, secrets replaced."""
        return [str(word) for word in self.launch.get("argv") or ()]

    def age_s(self, now: float) -> float | None:
        """Seconds since the launch; by the target's clock at the asking, so that two clocks need not agree."""
        elapsed = self.health.get("elapsed_s")
        if not self.launch or not isinstance(elapsed, int | float) or self.asked_at is None:
            return None
        return float(elapsed) + now - self.asked_at

    @property
    def sentences(self) -> list[str]:
        """What the operator should know beside the figures."""
        found = []
        failure = self.health.get("failure") or {}
        if self.condition is Condition.DEAD and failure:
            cause, remedy = failure.get("cause"), failure.get("remedy")
            found.append(
                f"{failure.get('class')}: {cause or 'the log does not say why'}; {remedy} ({failure.get('runbook')})"
            )
        elif self.condition is Condition.ABSENT:
            found.append("nothing runs here; start it with: ansible-playbook deploy.yml")
        elif self.condition is Condition.UNREACHABLE:
            found.append(self._unreachable)
        if self.condition is Condition.SILENT and self.log.fatal:
            found.append("the log says that the server does not survive; d shows the diagnosis")
        quiet = self.condition in (Condition.ABSENT, Condition.DEAD, Condition.STARTING)
        return found + [words for name, words in self.notes.items() if words and not (name == "server" and quiet)]
