"""Launch records: which launches there were, and whether each one still lives (pure)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Dict, Iterable, List

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts

ALIVE = "alive"
DEAD = "dead"
STALE = "stale"
"""Of another boot, or its session number was given away since: it owns no process any more."""


@dataclass(frozen=True)
class LaunchRecord:
    """The part of ``launch.json`` that identifies processes. Numbers are those of the namespace the server runs in."""

    file_name: str
    launch_id: str
    pid: int
    session: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True)
class Launch:
    """A record, whether its leader lives, and the pids (reader's numbers) of its session."""

    record: LaunchRecord
    status: str
    members: frozenset[int]


def parse_launch(file_name: str, text: str) -> LaunchRecord:
    """Parse a launch record.

    Raises:
        ValueError: not JSON, or a field that identifies the launch is missing or has another type.
    """
    content = json.loads(text)
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - the caller handles one kind of unreadable record
    numbers = {}
    for key in ("pid", "session", "start_ticks"):
        value = content.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{key} is missing or not a number")
        numbers[key] = value
    boot_id = content.get("boot_id")
    if not isinstance(boot_id, str) or not boot_id:
        raise ValueError("boot_id is missing")
    return LaunchRecord(file_name=file_name, launch_id=str(content.get("launch_id", "")), boot_id=boot_id, **numbers)


def judge_launches(
    records: Iterable[LaunchRecord],
    processes: Dict[int, ProcessFacts],
    boot_id: str,
    own_pid: Callable[[ProcessFacts], int],
    own_session: Callable[[ProcessFacts], int],
) -> List[Launch]:
    """Compare records with the processes there are.

    A process belongs to a launch when it has the launch's session and did not start before it. The kernel does not
    reuse a number that is still some process's session id, so a session is only doubtful when another leader sits on
    its number: then the record owns nothing.

    Args:
        records: from the state directory.
        processes: candidates (for a container only its own processes).
        boot_id: that the server's processes see.
        own_pid: a process's pid in the namespace of the records.
        own_session: its session id in that namespace.
    """
    by_own_pid = {own_pid(process): process for process in processes.values()}
    launches = []
    for record in records:
        leader = by_own_pid.get(record.pid)
        number_given_away = leader is not None and leader.start_ticks != record.start_ticks
        if record.boot_id != boot_id or number_given_away:
            launches.append(Launch(record, STALE, frozenset()))
            continue
        members = frozenset(
            process.pid
            for process in processes.values()
            if own_session(process) == record.session and process.start_ticks >= record.start_ticks
        )
        alive = leader is not None and leader.live_thread
        launches.append(Launch(record, ALIVE if alive else DEAD, members))
    return launches
