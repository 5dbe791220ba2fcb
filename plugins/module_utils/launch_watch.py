"""Watch one launch: its processes and its log every 0.2 s, HTTP when the log says that it is worth asking."""

from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Set, Tuple, Union

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_clock import LaunchClock
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.listening_port import look_up
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.log_follower import LogFollower
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.phase_clock import still_for_s
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.server_probe import (
    ProbeError,
    health_status,
    server_info,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import PhaseTracker
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.stall_evidence import SCHEDULER_NAME

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_target import ProcessTarget, SystemdTarget
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

POLL_S = 0.2
SETTLE_S = 0.6
"""After a death the log is read until it has been quiet for one poll, at most this long: the traceback still comes."""
MEMBERS_EVERY_S = 1.0
PORT_EVERY_S = 2.0
QUIET_LOG_S = 5.0
"""SGLang opens its port when it has loaded. A port that is open while the log has told of nothing for so long: the log
was deleted, rotated, or its disk is full, and only the server itself can say whether it serves."""
ANSWER_S = 25.0
"""How long one answer of ``/health`` may take: SGLang itself gives up after 20 s (entrypoints/http_server.py)."""
LATE_S = 1.0
"""A refusal that comes sooner is of a server that still warms up or shuts down; a later one had no token to give."""
# Reported by the slice that sees the server ready: leaving the module for them would cost a restart of it.
_LAST_PHASES = frozenset({"draft_graphs", "warmup", "serving"})


@dataclasses.dataclass(frozen=True)
class WatchOptions:
    """How to watch.

    Attributes:
        host: where to ask; loopback when the server listens everywhere.
        port: TCP port.
        api_key: for `/server_info`, "" without one.
        speculative: whether a draft model is loaded.
        slice_s: longest time to watch before returning.
        budget_s: longest time from the launch until the server is ready.
        known_phase: phase that was reported last; another one ends the slice.
        limits_s: how long each phase may stand still, in seconds; a phase without a limit may for ever.
        serves: false on a machine of several that only takes part: it answers `/health`, and nothing else.
    """

    host: str
    port: int
    api_key: str
    speculative: bool
    slice_s: float
    budget_s: float
    known_phase: str
    limits_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    serves: bool = True


@dataclasses.dataclass
class Observation:
    """What a slice ended with. `reason` says why the launch cannot become ready, "" while it can."""

    ready: bool = False
    dead: bool = False
    timed_out: bool = False
    stalled: bool = False
    reason: str = ""
    foreign: str = ""
    info: Dict[str, Any] = dataclasses.field(default_factory=dict)
    warnings: List[str] = dataclasses.field(default_factory=list)


class HealthProbe:
    """Asks `/health`, then `/server_info`, in a thread: a server that hangs must not hide that a process died.

    `silent_s` is for how long the server had given no token when it last answered: late refusals add up, because it may
    be set to give up sooner than after its 20 s (SGLANG_HEALTH_CHECK_TIMEOUT).
    """

    def __init__(self, options: WatchOptions) -> None:
        self._options = options
        self._thread: Optional[threading.Thread] = None
        self._silent_since: Optional[float] = None
        self.asked_at: Optional[float] = None
        self.status: Optional[int] = None
        self.silent_s = 0.0
        self.info: Dict[str, Any] = {}
        self.warning = ""

    @property
    def busy(self) -> bool:
        """Whether an answer is outstanding."""
        return self._thread is not None and self._thread.is_alive()

    def ask(self) -> None:
        """Send the requests; the answers appear in `status`, `info` and `warning`."""
        self.asked_at = time.monotonic()
        self.status = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        options = self._options
        asked_at = self.asked_at or time.monotonic()
        status = health_status(options.host, options.port)
        answered_at = time.monotonic()
        if status == 200 and options.serves:
            try:
                self.info = server_info(options.host, options.port, options.api_key)
            except ProbeError as error:
                self.warning = str(error)
        if status == 200 or answered_at - asked_at < LATE_S:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = asked_at
        self.silent_s = 0.0 if self._silent_since is None else answered_at - self._silent_since
        self.status = status


class LaunchWatch:
    """Watches one launch for one slice of time."""

    def __init__(
        self,
        target: Union[ProcessTarget, SystemdTarget],
        table: ProcessTable,
        options: WatchOptions,
        schedulers: Optional[Set[Tuple[int, int]]] = None,
        started_at: Optional[float] = None,
    ) -> None:
        self.target = target
        self.options = options
        self.schedulers = set(schedulers or ())
        record = target.record
        # Systemd's record is made anew at each look, from what the clock says now: the first look's is the launch's.
        began_at = record.started_at if started_at is None else started_at
        same_boot = record.boot_id == table.boot_id()
        self.clock = LaunchClock(began_at, record.start_ticks if same_boot else 0)
        self.tracker = PhaseTracker(began_at, speculative=options.speculative)
        self.log = LogFollower(Path(record.log_file), self.tracker, self.clock)
        self._table = table
        self._probe = HealthProbe(options)
        self._members: List[int] = []
        self._members_at = -MEMBERS_EVERY_S
        self._port_at = 0.0
        self._listening_ours = False

    @property
    def elapsed_s(self) -> float:
        """Seconds since the launch."""
        return self.clock.elapsed_s

    @property
    def log_silent_s(self) -> float:
        """Seconds since the log grew by more than lines about who asked; since the launch when there is no log yet."""
        grew_at = self.clock.unstepped(self.log.advanced_at or 0.0)
        return max(0.0, self.clock.now_epoch_s - max(grew_at, self.clock.started_at))

    def run(self) -> Observation:
        """Watch until the server is ready or lost, the phase changes, or the slice is over."""
        begin = time.monotonic()
        observation = Observation()
        while True:
            self.log.read()
            reason = self._death()
            if reason:
                self._settle()
                return dataclasses.replace(observation, dead=True, reason=reason)
            self._look_at_port(observation)
            if self._ask(observation):
                return observation
            if observation.foreign:
                return dataclasses.replace(observation, reason=observation.foreign)
            overdue = self._overdue(observation, begin)
            if overdue is not None:
                return overdue
            if self.tracker.phase not in {self.options.known_phase, *_LAST_PHASES}:
                return observation
            # The slice after this one would not know how long a server that has served owes an answer.
            owed = (self._probe.busy or self._probe.silent_s > 0) and self.tracker.phase == "serving"
            if time.monotonic() - begin >= self.options.slice_s and not owed:
                return observation
            time.sleep(POLL_S)

    def _overdue(self, observation: Observation, begin: float) -> Optional[Observation]:
        """Return the observation of a launch that stands still or has used its budget up, None of another."""
        reason = self._stall()
        if reason:
            return dataclasses.replace(observation, stalled=True, reason=reason)
        if self.elapsed_s > self.options.budget_s and not self._answer_pending(begin):
            reason = f"was not ready within {self.options.budget_s:g} s and stood"
            return dataclasses.replace(observation, timed_out=True, reason=reason)
        return None

    def _stall(self) -> str:
        """Say for how long a phase has stood still when that is longer than it may, else ""."""
        limit_s = self.options.limits_s.get(self.tracker.phase)
        if limit_s is None:
            return ""
        if self.tracker.phase == "serving":
            silent_s = self._probe.silent_s
            return f"gave no token for {silent_s:.0f} s (limit {limit_s:g} s)" if silent_s > limit_s else ""
        if self._probe.busy:
            return ""
        still_s = still_for_s(self.tracker.phases, self.elapsed_s, self.log_silent_s)
        if still_s <= limit_s:
            return ""
        return f"has not advanced for {still_s:.0f} s (limit {limit_s:g} s)"

    def _answer_pending(self, begin: float) -> bool:
        """Whether an old server may still prove itself: a budget counted from its launch says nothing about it."""
        asking = self._probe.busy or (self._probe.asked_at is None and self._listening_ours)
        return asking and time.monotonic() - begin < ANSWER_S

    def _death(self) -> str:
        """Say what died, "" while everything lives."""
        if not self.target.is_alive():
            return "died"
        now = time.monotonic()
        if now - self._members_at >= MEMBERS_EVERY_S:
            members = self.target.members()
            self._members = [process.pid for process in members]
            self._members_at = now
            self.schedulers |= {(p.pid, p.start_ticks) for p in members if p.name.startswith(SCHEDULER_NAME)}
        for pid, start_ticks in sorted(self.schedulers):
            if not self._table.is_alive(pid, start_ticks):
                return f"lost its scheduler process {pid}"
        return "failed" if self.tracker.fatal else ""

    def _settle(self) -> None:
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            time.sleep(POLL_S)
            if self.log.read() == 0:
                break
        self.log.finish()

    def _look_at_port(self, observation: Observation) -> None:
        now = time.monotonic()
        if now - self._port_at < PORT_EVERY_S and not (self.tracker.port_open and not self._listening_ours):
            return
        self._port_at = now
        state = look_up(self.options.port, self._members, host=self.options.host)
        ours = set(state.owners) & set(self._members or [p.pid for p in self.target.members()])
        self._listening_ours = bool(ours) or (state.listening and not state.owners)
        if state.listening and state.owners and not ours:
            pid, name = min(state.owners.items())
            observation.foreign = (
                f"port {self.options.port} is held by process {pid} ({name}), which does not belong to this launch"
            )
        elif state.listening and not state.owners:
            text = f"whether the process on port {self.options.port} belongs to this launch could not be checked"
            if text not in observation.warnings:
                observation.warnings.append(text)

    def _ask(self, observation: Observation) -> bool:
        """Ask over HTTP when it is time to; True when the server is ready."""
        if self._probe.busy:
            return False
        if self._probe.status == 200 and self._listening_ours:
            observation.ready = True
            observation.info = self._probe.info
            if self._probe.warning:
                observation.warnings.append(self._probe.warning)
            return True
        asked_at = self._probe.asked_at
        waited = float("inf") if asked_at is None else time.monotonic() - asked_at
        # Once the log says that the server is ready one refusal is odd, so it is asked again soon; otherwise rarely,
        # because each answer costs the server a token.
        patience = 1.0 if self.tracker.phase == "serving" else self.options.slice_s
        log_is_mute = self.tracker.phase == "starting" or self.log_silent_s > QUIET_LOG_S
        worth_asking = self.tracker.phase == "serving" or log_is_mute or self.tracker.port_open
        if self._listening_ours and worth_asking and waited >= patience:
            self._probe.ask()
        return False
