"""One answer of the preflight: what was asked, whether it holds, and what to do when it does not (pure)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Collection, Dict, Iterable, List, Optional

RUNBOOK = "docs/runbooks/preflight.md"
ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: stable id, lower case with hyphens.
        ok: True, False, or None when it does not apply here or cannot be known; `detail` says which.
        severity: what a False means: `error` (the launch fails or is worthless) or `warning` (look at it).
        detail: what was found, one sentence.
        remedy: what to do; empty unless `ok` is False.
        runbook: page that explains it; empty unless `ok` is False.
    """

    name: str
    ok: Optional[bool]
    severity: str
    detail: str
    remedy: str = ""
    runbook: str = ""

    @property
    def blocks(self) -> bool:
        """Whether a launch should not be tried."""
        return self.ok is False and self.severity == ERROR


def passed(name: str, detail: str, severity: str = ERROR) -> Check:
    """A check that holds."""
    return Check(name, ok=True, severity=severity, detail=detail)


def unknown(name: str, detail: str, severity: str = ERROR) -> Check:
    """A check that does not apply, or whose answer cannot be had here."""
    return Check(name, None, severity, detail)


def failed(name: str, detail: str, remedy: str, severity: str = ERROR, runbook: str = RUNBOOK) -> Check:
    """A check that does not hold."""
    return Check(name, ok=False, severity=severity, detail=detail, remedy=remedy, runbook=runbook)


def warned(name: str, detail: str, remedy: str, runbook: str = RUNBOOK) -> Check:
    """A check that does not hold and deserves a look."""
    return failed(name, detail, remedy, WARNING, runbook)


def as_rows(checks: Iterable[Check], host: str, ignored: Collection[str]) -> List[Dict[str, Any]]:
    """Checks as a module returns them; a failed one whose name is in `ignored` is only a warning."""
    rows = []
    for check in checks:
        row = {**asdict(check), "host": host}
        if check.blocks and check.name in ignored:
            row["severity"] = WARNING
        rows.append(row)
    return rows


def failures(rows: Iterable[Dict[str, Any]], severity: str) -> List[Dict[str, Any]]:
    """The rows that failed with this severity."""
    return [row for row in rows if row["ok"] is False and row["severity"] == severity]


def sentence(row: Dict[str, Any]) -> str:
    """A failed row as one sentence."""
    return f"{row['name']} ({row['host']}): {row['detail']}: {row['remedy']}."
