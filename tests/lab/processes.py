"""A process named so that a reused process number is never taken for it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


def boot_id() -> str:
    """The kernel's identifier of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Start time of a live process in clock ticks since boot (proc(5), stat field 22); None when it does not live."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass(frozen=True)
class ProcessIdentity:
    """Process number, start time and boot: together they name one process for ever."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Identity of a live process.

        Raises:
            ProcessLookupError: there is no such process, or it has ended and waits for its parent.
        """
        ticks = start_ticks(pid)
        if ticks is None:
            raise ProcessLookupError(f"process {pid} does not exist")
        return cls(pid, ticks, boot_id())

    @classmethod
    def read(cls, path: Path) -> ProcessIdentity | None:
        """Identity stored in a file; None when there is no (complete) file."""
        try:
            return cls(**json.loads(path.read_text()))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def write(self, path: Path) -> None:
        """Store it, whole or not at all."""
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(self)))
        temporary.replace(path)

    def alive(self) -> bool:
        """Whether exactly this process still runs."""
        return self.boot_id == boot_id() and start_ticks(self.pid) == self.start_ticks


def child_of(pid: int) -> int | None:
    """First child of a process, None while it has none."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(children[0]) if children else None
