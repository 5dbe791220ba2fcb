"""The cleaning itself: look, stop the unit, end what is ours, look again, and say what stands in the way.

Order and limits are those of the module's documentation. Only processes that ``gpu_selection`` chose are ever
signalled.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_accounts import (
    is_settled,
    leaks,
    occupying,
    remaining_ours,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_findings import (
    describe_holder,
    foreign_error,
    leak_error,
    name_of,
    respawn_error,
    survivors_error,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_launch_files import CURRENT
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_launches import ALIVE, Launch
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_leak_hints import leak_hints
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_ownership import FOREIGN, SYSTEM, in_unit
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_report import (
    gpu_rows,
    holder_rows,
    holder_table,
    leak_rows,
    process_rows,
    processes_line,
    survivor_rows,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_selection import (
    MODE_ALL,
    Selection,
    launchers,
    select,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_termination import Ended, Terminator

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_container import UnitState
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_node import Node
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_view import View

MAXIMUM_ROUNDS = 3
"""A process that forks while it ends leaves a second generation; a third comes only from something that restarts it."""
SETTLE_POLL_S = 0.1
STOPPED_BY_UNIT = "unit"
"""Reported instead of a signal for a process that went with its systemd unit."""
PLANNED = "TERM"


@dataclass(frozen=True)
class ReapOptions:
    """What to clean and how patient to be. Seconds and MiB; meanings as in the module's documentation."""

    mode: str
    unit: str
    settle_s: float
    idle_mib: int
    fail_on_foreign: bool
    allow_leak: bool
    check_mode: bool


class Reaper:
    """One cleaning of one node. ``result`` is filled as far as the cleaning came, also when ``run`` raises.

    Args:
        node: what is looked at.
        terminator: ends processes.
        options: what to clean.
        clock: monotonic seconds.
        sleep: waits seconds.
    """

    def __init__(
        self,
        node: Node,
        terminator: Terminator,
        options: ReapOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.node = node
        self.terminator = terminator
        self.options = options
        self.clock = clock
        self.sleep = sleep
        self.unit_active = False
        self.warnings: List[str] = []
        self.result: Dict[str, Any] = {
            "changed": False,
            "killed": [],
            "foreign": [],
            "protected": [],
            "system": [],
            "before": [],
            "after": [],
            "leaked": [],
            "survivors": [],
            "launches_removed": [],
            "unit": None,
            "notes": [],
        }

    def run(self) -> Dict[str, Any]:
        """Clean, verify, and return the module's result.

        Raises:
            GpuError: the GPUs are not free for us, or something needed for a safe decision cannot be read.
        """
        view = self.node.look()
        self.result["before"] = gpu_rows(view.gpus)
        self.result["diff"] = {"before": holder_table(view), "after": holder_table(view)}
        self._record(view, self._select(view))
        unit = self._unit_state(view)
        self.unit_active = unit is not None and unit.running
        selection = self._select(view)
        self._record(view, selection)
        if self.options.check_mode:
            self._predict(view, selection, unit)
            self._judge(view, selection)
            return self.result
        if self._unit_must_stop(unit, selection):
            view = self._stop_unit(selection)
        view = self._end_ours(view)
        self._forget_failure(unit)
        view = self._settle(view)
        self._retire_records(view)
        self._judge(view, self._observe(view))
        return self.result

    def _select(self, view: View) -> Selection:
        untouchable = self.node.caller_and_ancestors(view.processes)
        return select(view, self.options.mode, self.options.unit, unit_active=self.unit_active, untouchable=untouchable)

    def _observe(self, view: View) -> Selection:
        selection = self._select(view)
        self._record(view, selection)
        self.result["diff"]["after"] = holder_table(view)
        return selection

    def _warn(self, sentence: str) -> None:
        self.warnings.append(sentence)
        self.result["notes"].append(sentence)

    def _record(self, view: View, selection: Selection) -> None:
        self.result["after"] = gpu_rows(view.gpus)
        self.result["foreign"] = holder_rows(h for h in view.holders if h.owner_class == FOREIGN)
        self.result["system"] = holder_rows(h for h in view.holders if h.owner_class == SYSTEM)
        self.result["protected"] = process_rows(selection.protected, view)

    def _unit_state(self, view: View) -> Optional[UnitState]:
        container, unit = self.node.container, self.options.unit
        if container is None or not self.node.container_running or not unit:
            return None
        populated = any(in_unit(p, unit) for p in view.processes.values() if view.ownership.is_ours(p))
        # For orphans alone an empty unit protects nothing, and asking costs a pct call.
        if self.options.mode != MODE_ALL and not populated:
            return None
        try:
            state = container.unit_state(unit)
        except GpuError as error:
            if self.options.mode != MODE_ALL:
                raise
            self._warn(f"{error.sentence} The unit is not stopped through systemd.")
            return None
        self.result["unit"] = {"name": unit, "load_state": state.load, "active_state": state.active, "stopped": False}
        return state

    def _unit_must_stop(self, unit: Optional[UnitState], selection: Selection) -> bool:
        if unit is None or not unit.exists:
            return False
        if self.options.mode == MODE_ALL:
            return unit.running or any(in_unit(p, self.options.unit) for p in selection.victims)
        return not unit.running and any(in_unit(p, self.options.unit) for p in selection.victims)

    def _stop_unit(self, selection: Selection) -> View:
        container = self.node.container
        assert container is not None  # noqa: S101 - only a container has a unit here
        limit_s = self.terminator.grace_s + self.terminator.kill_wait_s
        problem = container.stop_unit(self.options.unit, limit_s)
        self.result["changed"] = True
        self.result["unit"]["stopped"] = not problem
        if problem:
            self._warn(f"{problem}; its processes are signalled one by one.")
        table = self.node.table
        gone = [p for p in selection.victims if not table.is_alive(p.pid, p.start_ticks)]
        self._ended([Ended(process, STOPPED_BY_UNIT) for process in gone])
        return self.node.look()

    def _forget_failure(self, unit: Optional[UnitState]) -> None:
        """Leave no failed unit behind: SGLang ends even a clean stop by killing itself, a failure to systemd."""
        container = self.node.container
        if self.options.mode != MODE_ALL or container is None or unit is None:
            return
        if not (unit.failed or self.result["unit"]["stopped"]):
            return
        problem = container.forget_failure(self.options.unit)
        if problem:
            self._warn(f"{problem}.")
        else:
            self.result["changed"] = True

    def _end_ours(self, view: View) -> View:
        for _round in range(MAXIMUM_ROUNDS):
            victims = self._select(view).victims
            if not victims:
                return view
            self.result["changed"] = True
            try:
                outcome = self.terminator.terminate(victims, launchers(victims))
            except PermissionError as error:
                raise GpuError(
                    f"Not permitted to signal {'; '.join(name_of(process) for process in victims)}.",
                    ["run as root (become: true) or as the user that runs the server"],
                ) from error
            self._ended(outcome.ended)
            view = self.node.look()
            if outcome.survivors:
                self.result["survivors"] = survivor_rows(outcome.survivors)
                self._observe(view)
                raise survivors_error(outcome.survivors)
        victims = self._select(view).victims
        if victims:
            self._observe(view)
            raise respawn_error(victims)
        return view

    def _ended(self, ended: List[Ended]) -> None:
        self.result["killed"] += [{"pid": e.process.pid, "name": e.process.label, "signal": e.signal} for e in ended]

    def _settle(self, view: View) -> View:
        """Wait until the driver has given the memory back (tearing down 8 x 90 GB takes seconds)."""
        deadline = self.clock() + self.options.settle_s
        while not is_settled(view, self._stays(view), self.options.idle_mib) and self.clock() < deadline:
            self.sleep(SETTLE_POLL_S)
            view = self.node.look()
        remaining = remaining_ours(view, self._stays(view))
        if remaining:
            self._observe(view)
            raise respawn_error(holder.process for holder in remaining)
        return view

    def _stays(self, view: View) -> frozenset[int]:
        return frozenset(process.pid for process in self._select(view).protected)

    def _retire_records(self, view: View) -> None:
        if self.options.mode != MODE_ALL:
            return
        files = self.node.launch_files(view)
        for launch in view.launches:
            if files is not None and launch.record.file_name == CURRENT and launch.status != ALIVE:
                files.retire()
                self._removed(launch)

    def _removed(self, launch: Launch) -> None:
        self.result["changed"] = True
        self.result["launches_removed"].append({"launch_id": launch.record.launch_id, "pid": launch.record.pid})

    def _predict(self, view: View, selection: Selection, unit: Optional[UnitState]) -> None:
        self._ended([Ended(process, PLANNED) for process in selection.victims])
        forgets = self.options.mode == MODE_ALL and unit is not None and unit.failed
        self.result["changed"] = bool(selection.victims) or forgets or self._unit_must_stop(unit, selection)
        gone = {process.pid for process in selection.victims}
        self.result["diff"]["after"] = holder_table(view, without=gone)
        if self.options.mode == MODE_ALL:
            for launch in view.launches:
                if launch.record.file_name == CURRENT:
                    self._removed(launch)

    def _judge(self, view: View, selection: Selection) -> None:
        self._note_zombies(view)
        stays = {process.pid for process in selection.protected}
        leaking = leaks(view, stays, self.options.idle_mib)
        self.result["leaked"] = leak_rows(leaking)
        others = occupying(view, self.options.idle_mib)
        if others and self.options.fail_on_foreign:
            raise foreign_error(others)
        for holder in others:
            self._warn(f"Left alone: {describe_holder(holder)}.")
        if leaking:
            hints = leak_hints(self.node.table, view, [account.gpu.index for account in leaking])
            error = leak_error(leaking, view, hints)
            # A check run cannot wait for the driver, so memory in teardown looks the same as a leak.
            if not self.options.allow_leak and not self.options.check_mode:
                raise error
            self._warn(error.message())

    def _note_zombies(self, view: View) -> None:
        zombies = [p for p in view.processes.values() if not p.live_thread and view.ownership.is_ours(p)]
        if zombies:
            names = ", ".join(f"{process.name} (pid {process.pid})" for process in zombies)
            self.result["notes"].append(
                f"{processes_line(zombies)} of ours ended, not yet collected by the parent, holding nothing: {names}."
            )
