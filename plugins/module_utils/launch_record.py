"""The record of one launch of the server: what was started, when, and by which process.

`launch.json` in the state directory is written by the process manager (mode 0600). For the systemd manager the same
record is derived from the properties that `systemctl show` prints. Pure: nothing here reads or writes a file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import redact_argv, redact_environment

SCHEMA = 1
FILE_NAME = "launch.json"
EXIT_FILE_NAME = "exit.json"
LOCK_FILE_NAME = "launch.lock"

# What `systemctl show` is asked for; order does not matter.
SYSTEMD_PROPERTIES = (
    "MainPID",
    "InvocationID",
    "ExecMainStartTimestampMonotonic",
    "ControlGroup",
    "NRestarts",
    "ActiveState",
    "SubState",
    "Result",
    "ExecMainCode",
    "ExecMainStatus",
    "LoadState",
)


@dataclasses.dataclass(frozen=True)
class LaunchRecord:
    """One launch.

    Attributes:
        launch_id: uuid4 of the launch, or systemd's invocation id.
        manager: "process" or "systemd".
        unit: name of the systemd unit, None for the process manager.
        pid: process id of the launcher, which leads its own session.
        session: session id of the launcher (equal to `pid` for the process manager).
        start_ticks: field 22 of /proc/PID/stat, in clock ticks since boot; with `boot_id` it identifies the process.
        boot_id: /proc/sys/kernel/random/boot_id.
        started_at: seconds since the epoch.
        argv: the command line, secrets redacted.
        environment: what was set on top of the base environment, secrets redacted.
        log_file: path of the log of this launch.
        fingerprint: see `fingerprint`.
        port: TCP port the server is to listen on.
        owner: identifier of the sweep that launched it, "" outside sweeps.
    """

    launch_id: str
    manager: str
    unit: Optional[str]
    pid: int
    session: int
    start_ticks: int
    boot_id: str
    started_at: float
    argv: List[str]
    environment: Dict[str, str]
    log_file: str
    fingerprint: str
    port: int
    owner: str
    schema: int = SCHEMA

    def to_json(self) -> str:
        """Return the record as the text of `launch.json`."""
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"

    def public(self) -> Dict[str, Any]:
        """Return the record as a module returns it: without the environment."""
        record = dataclasses.asdict(self)
        del record["environment"]
        return record


def parse_record(text: str) -> LaunchRecord:
    """Read the text of `launch.json`.

    Raises:
        ValueError: the text is not JSON, is of another schema or lacks a key; the sentence says which.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"the launch record is not JSON ({error}); remove it and start the server again") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ValueError(f"the launch record is not of schema {SCHEMA}; remove it and start the server again")
    names = [field.name for field in dataclasses.fields(LaunchRecord)]
    missing = [name for name in names if name not in data]
    if missing:
        raise ValueError(f"the launch record lacks {', '.join(missing)}; remove it and start the server again")
    return LaunchRecord(**{name: data[name] for name in names})


def redacted(record: LaunchRecord) -> LaunchRecord:
    """Return the record with secrets replaced in the command line and the environment."""
    return dataclasses.replace(
        record, argv=redact_argv(record.argv), environment=redact_environment(record.environment)
    )


def fingerprint(
    argv: Sequence[str], environment: Mapping[str, str], files: Sequence[Tuple[str, Optional[bytes]]] = ()
) -> str:
    """Identify what a launch was made from, as a SHA-256 in hexadecimal.

    Two launches with the same fingerprint would be the same server: same command line, same environment, same bytes in
    the files that SGLang reads at its start (draft `config.json`, the files that carry NCCL variables).

    Args:
        argv: the command line.
        environment: what is set on top of the base environment.
        files: path and content of each file; None for a file that does not exist.
    """
    digests = {path: None if content is None else hashlib.sha256(content).hexdigest() for path, content in files}
    document = {"argv": list(argv), "environment": dict(environment), "files": digests}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def parse_systemctl_show(text: str) -> Dict[str, str]:
    """Return the `Name=value` lines of `systemctl show` as a dictionary."""
    properties = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator:
            properties[name.strip()] = value.strip()
    return properties


def started_at_from_monotonic(start_us: int, now_monotonic_s: float, now_epoch_s: float) -> float:
    """Convert systemd's `ExecMainStartTimestampMonotonic` (microseconds since boot) to seconds since the epoch."""
    return now_epoch_s - (now_monotonic_s - start_us / 1e6)
