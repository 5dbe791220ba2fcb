"""What the kernel grants a process against what was asked for (pure, but for reading two files of /proc).

An unprivileged container may not raise a hard limit. systemd then grants what there is and says so in no log that
anybody reads, so that ``LimitMEMLOCK=infinity`` ends as 8 MiB and NCCL or the page-locking of weights fails much later.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Union

UNLIMITED = "unlimited"
Limit = Union[int, str]
"""A number (files, bytes) or ``UNLIMITED``."""

NAMES = {"nofile": "Max open files", "memlock": "Max locked memory"}
"""Our name (systemd's and Proxmox's in lower case) and the kernel's in /proc/PID/limits."""
UNITS = {"nofile": "", "memlock": " bytes"}
OOM_SCORE_ADJ = "oom_score_adj"


class LimitError(ValueError):
    """A wished limit is not a number, ``infinity`` or ``unlimited``."""


@dataclass(frozen=True)
class Shortfall:
    """A wish that the kernel did not grant."""

    name: str
    wanted: Limit
    granted: Limit

    def sentence(self, subject: str) -> str:
        """Say it, and what to do about it, in one sentence without the full stop.

        Args:
            subject: whose value it is, for example "sglang.service (pid 812)".
        """
        if self.name == OOM_SCORE_ADJ:
            return (
                f"{subject} has {OOM_SCORE_ADJ} {self.granted} instead of {self.wanted}: an unprivileged container may "
                "not lower it; accept the value or make the container privileged"
            )
        unit = UNITS[self.name]
        wanted = self.wanted if self.wanted == UNLIMITED else f"{self.wanted}{unit}"
        return (
            f"{subject} may have {self.granted}{unit} of {self.name} instead of {wanted}: the container does not grant "
            f"more; write 'lxc.prlimit.{self.name}: {self.wanted}' into /etc/pve/lxc/<vmid>.conf on the Proxmox host "
            "and restart the container"
        )


def parse_wish(value: Union[int, str]) -> Limit:
    """Return a wished limit; systemd's ``infinity`` is the kernel's ``unlimited``.

    Raises:
        LimitError: it is neither a number nor one of those words.
    """
    text = str(value).strip().lower()
    if text in {"infinity", UNLIMITED, "-1"}:
        return UNLIMITED
    if not text.isdigit():
        raise LimitError(f"the limit {value!r} is neither a whole number nor infinity")
    return int(text)


def parse_limits(text: str) -> Dict[str, Limit]:
    """Return the soft limits of /proc/PID/limits by our names; what it does not list is left out."""
    found: Dict[str, Limit] = {}
    for line in text.splitlines():
        for name, title in NAMES.items():
            if line.startswith(title):
                soft = line[len(title) :].split()[0]
                found[name] = UNLIMITED if soft == UNLIMITED else int(soft)
    return found


def read_granted(pid: int, root: str = "/proc") -> Optional[Dict[str, Limit]]:
    """Return limits and ``oom_score_adj`` of a process, None when it is gone."""
    directory = Path(root, str(pid))
    try:
        limits = parse_limits((directory / "limits").read_text(encoding="ascii"))
        return {**limits, OOM_SCORE_ADJ: int((directory / OOM_SCORE_ADJ).read_text(encoding="ascii"))}
    except (OSError, ValueError):  # a process that ends leaves an empty file behind
        return None


def shortfalls(wanted: Mapping[str, Limit], granted: Mapping[str, Limit]) -> List[Shortfall]:
    """Compare. A limit may be higher than asked for, ``oom_score_adj`` has to be equal."""
    return [
        Shortfall(name, wish, granted[name])
        for name, wish in wanted.items()
        if name in granted and _falls_short(name, wish, granted[name])
    ]


def _falls_short(name: str, wish: Limit, granted: Limit) -> bool:
    if name == OOM_SCORE_ADJ:
        return wish != granted
    if UNLIMITED in (wish, granted):
        return granted != UNLIMITED
    return int(granted) < int(wish)
