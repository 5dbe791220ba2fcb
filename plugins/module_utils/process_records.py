"""What the kernel says about a process, and the parsers of the /proc files that say it (pure; formats: man 5 proc)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Dict, List, Sequence, Tuple

KERNEL_THREAD_FLAG = 0x00200000
"""PF_KTHREAD in field 9 of /proc/PID/stat (include/linux/sched.h)."""

SIGKILL_BIT = 1 << (9 - 1)
"""Signal 9 in the masks of /proc/PID/status."""

DEAD_STATES = frozenset("ZXx")


@dataclass(frozen=True)
class ProcessFacts:
    """One process. (``pid``, ``start_ticks``) is its identity: the pair is not used twice within one boot.

    ``parent``, ``group`` and ``session`` are numbers of the reader's PID namespace; ``namespace_pid`` and
    ``namespace_session`` are those of the innermost namespace the process lives in (what it sees itself).
    """

    pid: int
    parent: int
    group: int
    session: int
    start_ticks: int
    state: str
    name: str
    kernel_thread: bool = False
    live_thread: bool = True
    title: str = ""
    cgroup: str = ""
    pid_namespace: str = ""
    namespace_pid: int = 0
    namespace_session: int = 0
    namespace_depth: int = 1
    devices: Tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name for people: the process title where there is one, else the kernel's name."""
        return self.title or self.name

    def with_namespace(self, pid_namespace: str, ids: NamespaceIds) -> ProcessFacts:
        """A copy that knows its PID namespace and its numbers in there."""
        return replace(
            self,
            pid_namespace=pid_namespace,
            namespace_pid=ids.pids[-1] if ids.pids else 0,
            namespace_session=ids.sessions[-1] if ids.sessions else 0,
            namespace_depth=max(1, len(ids.pids)),
        )


@dataclass(frozen=True)
class ThreadFacts:
    """One thread: its state letter, where in the kernel it waits ("" when not told), whether SIGKILL is pending."""

    tid: int
    state: str
    wait_channel: str
    kill_pending: bool = False


@dataclass(frozen=True)
class NamespaceIds:
    """NSpid and NSsid of /proc/PID/status: the reader's number first, the innermost one last."""

    pids: Tuple[int, ...]
    sessions: Tuple[int, ...]


def parse_stat(text: str) -> ProcessFacts:
    """Parse /proc/PID/stat. The name (field 2) may contain spaces and parentheses, so it is cut out from both ends.

    Raises:
        ValueError: the text is not a stat line.
    """
    opening, closing = text.find("("), text.rfind(")")
    if opening < 1 or closing < opening:
        raise ValueError(f"not a /proc/PID/stat line: {text[:80]!r}")
    fields = text[closing + 1 :].split()
    if len(fields) < 20:
        raise ValueError(f"a /proc/PID/stat line ends early: {text[:80]!r}")
    state = fields[0]
    return ProcessFacts(
        pid=int(text[:opening]),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        state=state,
        name=text[opening + 1 : closing],
        kernel_thread=bool(int(fields[6]) & KERNEL_THREAD_FLAG),
        live_thread=state not in DEAD_STATES,
    )


def parse_cgroup(text: str) -> str:
    """The path of the unified hierarchy (the ``0::`` line) of /proc/PID/cgroup; "" where there is none."""
    for line in text.splitlines():
        if line.startswith("0::"):
            return line[3:]
    return ""


def cgroup_components(path: str) -> List[str]:
    """The components of a cgroup path: ``/lxc/129/ns`` is ``["lxc", "129", "ns"]``."""
    return [component for component in path.split("/") if component]


def parse_namespace_ids(text: str) -> NamespaceIds:
    """NSpid and NSsid of a /proc/PID/status text; empty tuples where the kernel does not list them (gVisor)."""
    found: Dict[str, Tuple[int, ...]] = {"NSpid": (), "NSsid": ()}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key in found:
            found[key] = tuple(int(number) for number in value.split())
    return NamespaceIds(found["NSpid"], found["NSsid"])


def parse_thread_state(text: str) -> str:
    """The state letter of a /proc/PID/task/TID/status text; "?" where the line is missing."""
    for line in text.splitlines():
        if line.startswith("State:"):
            return line.split()[1]
    return "?"


def parse_kill_pending(text: str) -> bool:
    """Whether SIGKILL waits to be delivered, by SigPnd and ShdPnd of a /proc/PID/task/TID/status text."""
    masks = [line.split()[1] for line in text.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(int(mask, 16) & SIGKILL_BIT for mask in masks)


def title_of(argv: Sequence[str]) -> str:
    """A short name from a command line. Only what names the program is kept: later arguments may carry secrets."""
    words = [word for word in argv if word]
    if not words:
        return ""
    program = PurePosixPath(words[0].split(" ")[0]).name if "::" not in words[0] else words[0]
    if program.startswith("python") and len(words) > 1:
        if words[1] == "-m" and len(words) > 2:
            return f"{program} -m {words[2]}"
        if not words[1].startswith("-"):
            return f"{program} {PurePosixPath(words[1]).name}"
    return program[:60]
