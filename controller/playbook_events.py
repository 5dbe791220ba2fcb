"""What a playbook run says, read from ansible-runner's events as they arrive. Pure: no Ansible, no files.

Event names and fields: ansible-runner 2.4, ``ansible_runner/display_callback/callback/awx_display.py``. Warnings and
deprecations arrive as ``verbose`` events and are not read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from controller.launch_progress import read_progress
from controller.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.launch_progress import LaunchProgress

Status = Literal["ok", "failed", "unreachable", "cancelled"]
RESULT_MODULES = ("sglang_health", "gpu_reap", "launch_conditions", "preflight_info", "debug")
"""Modules whose results the controller reads, by the last part of their name."""

_ENDINGS = ("runner_on_ok", "runner_on_failed", "runner_on_unreachable", "runner_on_skipped")


@dataclass(frozen=True, slots=True)
class TaskTime:
    """How long one task took on one host, in seconds."""

    task: str
    module: str
    seconds: float
    outcome: str

    def within(self, seconds: float) -> TaskTime:
        """Return the timing within the ``seconds`` of its run: Ansible asks a clock that may be set meanwhile."""
        return replace(self, seconds=min(max(self.seconds, 0.0), seconds))

    def as_json(self) -> dict[str, Any]:
        """Return the timing for the journal."""
        return {"task": self.task, "module": self.module, "s": round(self.seconds, 3), "outcome": self.outcome}


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """The task that ended the play on a host: its name, its sentence, and what the module returned."""

    task: str
    module: str
    message: str
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class EventCollector:
    """Feed it every event of one run; it keeps timings, the results that count, the failure and the statistics."""

    on_phase: Callable[[str], None] | None = None
    on_child: Callable[[int], None] | None = None
    on_progress: Callable[[LaunchProgress], None] | None = None
    tasks: list[TaskTime] = field(default_factory=list)
    results: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    failure: TaskFailure | None = None
    unreachable: TaskFailure | None = None
    statistics: Mapping[str, Any] | None = None
    error_text: list[str] = field(default_factory=list)
    child: int | None = None
    _phase: str = ""

    def feed(self, event: Mapping[str, Any]) -> None:
        """Take one event in."""
        name = event.get("event", "")
        data = event.get("event_data") or {}
        if self.child is None and isinstance(event.get("pid"), int):
            self.child = event["pid"]
            if self.on_child:
                self.on_child(event["pid"])
        if name == "runner_retry":
            self._retried(data)
        elif name == "playbook_on_stats":
            self.statistics = data
        elif name in _ENDINGS:
            self._ended(name, data)
        elif name in ("error", "verbose") and "ERROR" in (event.get("stdout") or ""):
            self.error_text.append(event["stdout"])

    def status(self, return_code: int | None, *, cancelled: bool) -> Status:
        """Say how the run ended. The statistics, when there are any, outrank the return code."""
        if cancelled:
            return "cancelled"
        if self.statistics is not None:
            if self.statistics.get("dark"):
                return "unreachable"
            if self.statistics.get("failures") or not self.statistics.get("processed"):
                return "failed"
            return "ok"
        if self.unreachable:
            return "unreachable"
        return "ok" if return_code == 0 and self.tasks else "failed"

    def _retried(self, data: Mapping[str, Any]) -> None:
        """Keep what an unfinished module says: it is the latest word when the run is cancelled."""
        result = data.get("res") or {}
        module = str(data.get("resolved_action") or data.get("task_action") or "").rpartition(".")[2]
        if module in RESULT_MODULES:
            self.results[module] = _said(result)
        self._live(result)

    def _live(self, result: Mapping[str, Any]) -> None:
        """Say how far a launch is, and then its phase when that is a new one."""
        progress = read_progress(result)
        if progress and self.on_progress:
            self.on_progress(progress)
        phase = result.get("phase")
        if isinstance(phase, str) and phase and phase != self._phase:
            self._phase = phase
            if self.on_phase:
                self.on_phase(phase)

    def _ended(self, name: str, data: Mapping[str, Any]) -> None:
        module = str(data.get("resolved_action") or data.get("task_action") or "")
        result = data.get("res") or {}
        task = str(data.get("task") or "")
        outcome = name.removeprefix("runner_on_")
        self.tasks.append(TaskTime(task, module, float(data.get("duration") or 0.0), outcome))
        short = module.rpartition(".")[2]
        if short in RESULT_MODULES and outcome in ("ok", "failed"):
            self.results[short] = _said(result)
            self._live(result)
        if outcome == "failed" and not data.get("ignore_errors"):
            self.failure = TaskFailure(task, module, _message(result), result)
        elif outcome == "unreachable":
            self.unreachable = TaskFailure(task, module, _message(result), result)


def _said(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the module itself said, without what Ansible adds (arguments, difference, internal fields)."""
    added = ("invocation", "diff", "attempts", "retries")
    return {key: value for key, value in result.items() if key not in added and not key.startswith("_")}


def _message(result: Mapping[str, Any]) -> str:
    """Return the module's sentence on one line."""
    text = str(result.get("msg") or result.get("stderr") or result.get("module_stderr") or "the task gave no message")
    return redact_text(" ".join(text.split()))
