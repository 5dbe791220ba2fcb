"""The launch to watch, whoever manages it: its record, its processes, its exit status."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_record import (
    SYSTEMD_PROPERTIES,
    LaunchRecord,
    started_at_from_monotonic,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_manager import ProcessManager
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import redact_argv
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.systemd_unit import UnitError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.systemd_unit import show_unit as ask_systemd

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_files import LaunchFiles
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

_CGROUP_MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
# siginfo's CLD_KILLED and CLD_DUMPED, as `ExecMainCode` gives them.
_ENDED_BY_SIGNAL = ("2", "3")


class TargetError(Exception):
    """There is no launch to watch; the message is one sentence."""


class ProcessTarget:
    """A launch of the process manager."""

    def __init__(self, record: LaunchRecord, files: LaunchFiles, table: ProcessTable) -> None:
        self.record = record
        self._files = files
        self._manager = ProcessManager(files, table)

    def is_alive(self) -> bool:
        """Say whether the launcher runs."""
        return self._manager.is_live(self.record)

    def members(self) -> List[ProcessFacts]:
        """Return the living processes of the launch."""
        return self._manager.members(self.record)

    def exit_status(self) -> Optional[int]:
        """Return the launcher's exit status (negative: a signal), None while it is not known."""
        return self._files.exit_status(self.record)


class SystemdTarget:
    """A launch of a systemd unit. Its process is followed in /proc; systemd is only asked at the begin and the end."""

    def __init__(self, record: LaunchRecord, control_group: str, table: ProcessTable, systemctl: str) -> None:
        self.record = record
        self._control_group = control_group
        self._table = table
        self._systemctl = systemctl

    def is_alive(self) -> bool:
        """Say whether the main process of this invocation runs."""
        return self.record.pid > 0 and self._table.is_alive(self.record.pid, self.record.start_ticks)

    def members(self) -> List[ProcessFacts]:
        """Return the living processes in the unit's control group."""
        processes = [self._table.read(pid) for pid in self._pids()]
        return [process for process in processes if process is not None and process.live_thread]

    def _pids(self) -> List[int]:
        for mount in _CGROUP_MOUNTS:
            top = Path(mount + self._control_group)
            if self._control_group and top.is_dir():
                pids = []
                for path in (top / "cgroup.procs", *top.glob("**/cgroup.procs")):
                    with contextlib.suppress(OSError):
                        pids += [int(number) for number in path.read_text(encoding="ascii").split()]
                return sorted(set(pids))
        return [self.record.pid] if self.record.pid else []

    def exit_status(self) -> Optional[int]:
        """Return the main process's exit status (negative: a signal), None while it runs or nothing is known."""
        properties = show_unit(str(self.record.unit), self._systemctl)
        code, status = properties.get("ExecMainCode", "0"), properties.get("ExecMainStatus", "")
        if code in ("", "0") or not status.isdigit():
            return None
        return -int(status) if code in _ENDED_BY_SIGNAL else int(status)


def show_unit(unit: str, systemctl: str) -> Dict[str, str]:
    """Return the properties of a unit.

    Raises:
        TargetError: systemctl is missing, hangs or refuses.
    """
    try:
        return ask_systemd(unit, SYSTEMD_PROPERTIES, systemctl)
    except UnitError as error:
        raise TargetError(str(error)) from error


def find_process_target(files: LaunchFiles, table: ProcessTable) -> ProcessTarget:
    """Return the recorded launch.

    Raises:
        TargetError: nothing is recorded.
    """
    record = files.read()
    if record is None:
        raise TargetError(f"no launch is recorded in {files.directory}; start the server with deploy.yml")
    return ProcessTarget(record, files, table)


def find_systemd_target(
    unit: str, log_file: str, port: int, table: ProcessTable, systemctl: str = "systemctl"
) -> SystemdTarget:
    """Return the present invocation of a unit; pid 0 when its main process is gone.

    Raises:
        TargetError: the unit does not exist or was never started.
    """
    properties = show_unit(unit, systemctl)
    if properties.get("LoadState") == "not-found":
        raise TargetError(f"there is no unit {unit}; install it with deploy.yml")
    start_us = int(properties.get("ExecMainStartTimestampMonotonic") or 0)
    if not start_us:
        raise TargetError(f"the unit {unit} was not started since boot; start the server with deploy.yml")
    pid = int(properties.get("MainPID") or 0)
    process = table.read(pid) if pid else None
    record = LaunchRecord(
        launch_id=properties.get("InvocationID", ""),
        manager="systemd",
        unit=unit,
        pid=pid if process else 0,
        session=process.session if process else 0,
        start_ticks=process.start_ticks if process else 0,
        boot_id=table.boot_id(),
        started_at=round(started_at_from_monotonic(start_us, time.monotonic(), time.time()), 3),
        argv=redact_argv(_command_line(pid, table)) if process else [],
        environment={},
        log_file=log_file,
        fingerprint="",
        port=port,
        owner="",
    )
    return SystemdTarget(record, properties.get("ControlGroup", ""), table, systemctl)


def _command_line(pid: int, table: ProcessTable) -> List[str]:
    try:
        text = Path(table.root, str(pid), "cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rstrip("\0").split("\0")
