"""What a sweep needs from the rest: something that runs playbooks, something that makes load, someone who watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from controller.launch_progress import LaunchProgress
    from controller.load.records import RequestRecord
    from controller.plan import Cell, Plan
    from controller.playbooks import PlaybookRun


class PlaybookRunner(Protocol):
    """Runs playbooks (``controller.playbooks.Playbooks``)."""

    def run(
        self,
        playbook: str,
        *,
        directory: Path,
        extra_vars: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        on_phase: Callable[[str], None] | None = None,
        cancelled: Callable[[], bool] = ...,
    ) -> PlaybookRun:
        """Run ``playbooks/<playbook>.yml`` and return how it ended."""

    def command(self, playbook: str, extra_vars: Mapping[str, Any], tags: Sequence[str] = ()) -> str:
        """Return the command line that does the same by hand."""


class PreparingRunner(PlaybookRunner, Protocol):
    """Runs playbooks and can start one before it is wanted (``controller.ahead.AheadOfTime``)."""

    def prepare(self, playbook: str, *, directory: Path, extra_vars: Mapping[str, Any]) -> None:
        """Start a playbook that waits until ``run`` asks for the same one."""

    def discard(self) -> None:
        """End a prepared playbook that nobody will ask for."""


class LoadGenerator(Protocol):
    """Sends the workload to a ready server (``controller.sweep.http_load.HttpLoad``)."""

    @property
    def levels(self) -> Sequence[int]:
        """Concurrency levels that every launch measures."""

    @property
    def repeats(self) -> int:
        """Runs per level within one launch."""

    def server_info(self, base_url: str) -> Mapping[str, Any]:
        """Return ``/server_info``, secrets removed."""

    def flush_cache(self, base_url: str) -> None:
        """Empty the prefix cache, so that a repeated prompt is not answered from it."""

    def run(
        self,
        base_url: str,
        *,
        run: int,
        concurrency: int,
        warmup: bool,
        time_scale: float,
        on_tokens: Callable[[int, float], None],
    ) -> Sequence[RequestRecord]:
        """Send every prompt once (or the warm-up ones); ``on_tokens`` gets tokens and unscaled seconds so far."""


class Watcher(Protocol):
    """Is told what happens, to show it. Every call returns at once."""

    def sweep_started(self, plan: Plan, pending: Sequence[Cell], reused: int) -> None:
        """The plan is known and the lock is held."""

    def cell_started(self, cell: Cell, position: int, total: int, attempt: int) -> None:
        """A launch begins; ``position`` counts from 1."""

    def progress(self, progress: LaunchProgress) -> None:
        """The launch was looked at; comes before ``phase`` when the phase is a new one, and again while it lasts."""

    def phase(self, name: str) -> None:
        """The server of the cell entered a phase of its start."""

    def measuring(self, text: str) -> None:
        """Warm-up or a run begins."""

    def tokens(self, count: int, seconds: float) -> None:
        """Tokens received so far in this run, and unscaled seconds since it began."""

    def cell_ended(self, cell: Cell, state: str, text: str, seconds: float) -> None:
        """The cell reached its last state; ``text`` is one sentence."""

    def note(self, text: str) -> None:
        """Something the operator must know."""


class SilentWatcher:
    """A watcher that shows nothing."""

    def sweep_started(self, plan: Plan, pending: Sequence[Cell], reused: int) -> None:
        """Ignore."""

    def cell_started(self, cell: Cell, position: int, total: int, attempt: int) -> None:
        """Ignore."""

    def progress(self, progress: LaunchProgress) -> None:
        """Ignore."""

    def phase(self, name: str) -> None:
        """Ignore."""

    def measuring(self, text: str) -> None:
        """Ignore."""

    def tokens(self, count: int, seconds: float) -> None:
        """Ignore."""

    def cell_ended(self, cell: Cell, state: str, text: str, seconds: float) -> None:
        """Ignore."""

    def note(self, text: str) -> None:
        """Ignore."""
