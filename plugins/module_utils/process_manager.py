"""Start and stop the server without systemd: one launch a state directory, recorded, idempotent."""

from __future__ import annotations

import dataclasses
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.detached_process import base_environment, start_detached
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis import diagnose_text
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_files import LaunchFiles, read_inputs, rotate_log
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_record import (
    LaunchRecord,
    fingerprint,
    redacted,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.listening_port import can_bind, look_up
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_termination import Terminator
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import redact_text
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import LineAssembler

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts

EXEC_WAIT_S = 0.25
"""How long a launch is watched for an immediate death."""
KILL_WAIT_S = 10.0
LAST_WORDS_BYTES = 64 * 1024
EXIT_STATUS_WAIT_S = 1.0
"""The waiter needs a moment to write the exit status down, more when the machine is busy."""
PORT_RELEASE_S = 2.0


class LaunchError(Exception):
    """The launch cannot be started or stopped; the message is one sentence, what to do after its first semicolon.

    Args:
        message: The sentence.
        failure_class: What kind of failure it is, as in the results of sglang_health.
    """

    def __init__(self, message: str, failure_class: str = "unknown") -> None:
        super().__init__(message)
        self.failure_class = failure_class


@dataclasses.dataclass(frozen=True)
class WantedLaunch:
    """What is to run.

    Attributes:
        argv: command line, first word an absolute path.
        environment: set on top of the base environment.
        log_file: absolute path.
        log_keep: number of old logs that stay.
        host: address the server will bind.
        port: TCP port.
        owner: who launches it, "" outside sweeps.
        inputs: files whose bytes belong to the identity of the launch.
        model_paths: what SGLang will read; absolute paths must exist.
    """

    argv: Sequence[str]
    environment: Dict[str, str]
    log_file: str
    log_keep: int
    host: str
    port: int
    owner: str
    inputs: Sequence[str]
    model_paths: Sequence[str]

    def fingerprint(self) -> str:
        """Return the identity of this launch."""
        return fingerprint(self.argv, self.environment, read_inputs(self.inputs))


class ProcessManager:
    """Manages the launch of one state directory; the caller holds its lock."""

    def __init__(self, files: LaunchFiles, table: Optional[ProcessTable] = None) -> None:
        self.files = files
        self.table = table or ProcessTable()

    def is_live(self, record: Optional[LaunchRecord]) -> bool:
        """Say whether the launcher of this record still runs (a zombie does not)."""
        return (
            record is not None
            and record.boot_id == self.table.boot_id()
            and self.table.is_alive(record.pid, record.start_ticks)
        )

    def members(self, record: Optional[LaunchRecord]) -> List[ProcessFacts]:
        """Return the living processes of the launch's session, the launcher among them."""
        if record is None or record.boot_id != self.table.boot_id():
            return []
        leader = self.table.read(record.pid)
        if leader is not None and leader.start_ticks != record.start_ticks:
            return []  # the number was given away: nothing of that session is left
        everyone = (self.table.read(int(name)) for name in os.listdir(self.table.root) if name.isdigit())  # noqa: PTH208 - speed
        return [
            process
            for process in everyone
            if process is not None
            and process.session == record.session
            and process.start_ticks >= record.start_ticks
            and process.live_thread
        ]

    def check(self, wanted: WantedLaunch, record: Optional[LaunchRecord]) -> None:
        """Refuse a launch that cannot succeed, before anything is stopped or started.

        Raises:
            LaunchError: interpreter or a model path is missing, or a process that is not ours holds the port.
        """
        interpreter = wanted.argv[0]
        if not os.access(interpreter, os.X_OK) or Path(interpreter).is_dir():
            raise LaunchError(
                f"there is no interpreter {interpreter}; create the environment or set sglang_server_python",
                "no-interpreter",
            )
        for path in wanted.model_paths:
            if path.startswith("/") and not Path(path, "config.json").is_file():
                state = "holds no config.json" if Path(path).is_dir() else "does not exist"
                raise LaunchError(
                    f"the model path {path} {state}; correct the path or finish the download", "no-such-model"
                )
        ours = {process.pid for process in self.members(record)}
        state_of_port = look_up(wanted.port, ours, host=wanted.host)
        foreign = {pid: name for pid, name in state_of_port.owners.items() if pid not in ours}
        if foreign:
            pid, name = min(foreign.items())
            raise LaunchError(
                f"port {wanted.port} is in use by process {pid} ({name}), which is not a launch of ours; "
                "end that process or set another sglang_server_port",
                "port-in-use",
            )
        if state_of_port.listening and not state_of_port.owners:
            raise LaunchError(
                f"port {wanted.port} is in use by a process that cannot be seen from here (another user or container); "
                "find it with 'ss -ltnp' as root on the host, or set another sglang_server_port",
                "port-in-use",
            )

    def stop(self, record: LaunchRecord, grace_s: float) -> bool:
        """End every process of the launch: SIGTERM to the launcher, then SIGKILL to what is left of its session.

        Returns:
            Whether there was anything to end.

        Raises:
            LaunchError: a process survives SIGKILL or may not be signalled.
        """
        members = self.members(record)
        if members:
            launcher = [process for process in members if process.pid == record.pid]
            try:
                outcome = Terminator(self.table, grace_s, KILL_WAIT_S).terminate(members, launcher or members)
            except PermissionError as error:
                raise LaunchError(
                    f"may not signal the server's processes ({error.strerror}); run as the user who started it"
                ) from error
            if outcome.survivors:
                names = ", ".join(f"{s.process.pid} ({s.process.name}, state {s.state})" for s in outcome.survivors)
                raise LaunchError(
                    f"processes of the server survive SIGKILL: {names}; see docs/runbooks/gpu-process-survives-kill.md"
                )
            if self.members(record):
                # Born while their parents were being ended.
                Terminator(self.table, 0.0, KILL_WAIT_S).terminate(self.members(record), [])
        self.files.retire()
        return bool(members)

    def start(self, wanted: WantedLaunch) -> LaunchRecord:
        """Start the launch and record it.

        Raises:
            LaunchError: the port stays taken, the log has no room, or the server dies at once.
        """
        self._wait_for_port(wanted)
        log_file = Path(wanted.log_file)
        log_file.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        rotate_log(log_file, wanted.log_keep)
        _check_room(log_file)
        records: List[LaunchRecord] = []
        identity = wanted.fingerprint()

        def publish(pid: int) -> None:
            record = self._record(wanted, pid, identity)
            self.files.write(record)
            records.append(record)

        environment = {**base_environment(wanted.argv[0]), **wanted.environment}
        start_detached(wanted.argv, environment, log_file, self.files.exit_path, publish)
        record = records[0]
        self._watch_exec(record, log_file)
        return record

    def _record(self, wanted: WantedLaunch, pid: int, identity: str) -> LaunchRecord:
        start_ticks = self.table.start_ticks(pid)
        if start_ticks is None:
            raise LaunchError("the server vanished before it was started; run again")
        return redacted(
            LaunchRecord(
                launch_id=str(uuid.uuid4()),
                manager="process",
                unit=None,
                pid=pid,
                session=pid,
                start_ticks=start_ticks,
                boot_id=self.table.boot_id(),
                started_at=time.time(),
                argv=list(wanted.argv),
                environment=dict(wanted.environment),
                log_file=wanted.log_file,
                fingerprint=identity,
                port=wanted.port,
                owner=wanted.owner,
            )
        )

    def _wait_for_port(self, wanted: WantedLaunch) -> None:
        deadline = time.monotonic() + PORT_RELEASE_S
        while not can_bind(wanted.host, wanted.port):
            if time.monotonic() >= deadline:
                raise LaunchError(
                    f"{wanted.host}:{wanted.port} cannot be bound; set sglang_server_host to an address of this "
                    "machine and sglang_server_port to a free port that this user may use",
                    "port-in-use",
                )
            time.sleep(0.05)

    def _watch_exec(self, record: LaunchRecord, log_file: Path) -> None:
        deadline = time.monotonic() + EXEC_WAIT_S
        while time.monotonic() < deadline:
            if not self.table.is_alive(record.pid, record.start_ticks):
                status = self._await_exit_status(record)
                ended = "" if status is None else f" with exit status {status}"
                words, kind = _last_words(log_file)
                raise LaunchError(f"the server died at once{ended}: {words}; see {log_file}", kind)
            time.sleep(0.05)

    def _await_exit_status(self, record: LaunchRecord) -> Optional[int]:
        deadline = time.monotonic() + EXIT_STATUS_WAIT_S
        while time.monotonic() < deadline:
            status = self.files.exit_status(record)
            if status is not None:
                return status
            time.sleep(0.05)
        return None


def _check_room(log_file: Path) -> None:
    """Refuse a launch whose log could not tell anything.

    Raises:
        LaunchError: the file system of the log is full.
    """
    try:
        system = os.statvfs(log_file.parent)
    except OSError:
        return
    free = system.f_bavail if os.geteuid() else system.f_bfree
    if system.f_blocks and not free:  # some file systems do not count their blocks
        raise LaunchError(
            f"cannot write the log {log_file} (No space left on device); free some space there or set "
            "sglang_server_log_dir"
        )


def _last_words(log_file: Path) -> Tuple[str, str]:
    """The cause in the log, else its last line; and its class."""
    assembler = LineAssembler()
    try:
        lines = assembler.feed(log_file.read_bytes()[-LAST_WORDS_BYTES:]) + assembler.rest()
    except OSError:
        lines = []
    found = diagnose_text(lines)
    words = found.cause or (lines[-1].strip() if lines else "it said nothing")
    return redact_text(words).rstrip("."), found.failure_class


def describe(argv: Sequence[str], environment: Dict[str, str]) -> str:
    """Return a launch as text with one variable and one flag a line, for diffs."""
    lines = [f"{name}={value}" for name, value in environment.items()]
    for word in argv:
        if word.startswith("-") or not lines or not lines[-1].startswith("--") or " " in lines[-1]:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines) + "\n"
