"""The table with everything: one row for each launch and concurrency, for HTML, Markdown and CSV alike."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.analysis.result import LaunchPoint
    from controller.report.facts import CellFacts, SweepFacts

Value = str | int | float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column: its stable name (the header of the CSV), its heading, unit, digits and how it reads."""

    name: str
    heading: str
    digits: int | None = None  # None: text or whole number
    numeric: bool = False


COLUMNS = (
    Column("order", "launch", numeric=True),
    Column("cell", "cell"),
    Column("block", "block", numeric=True),
    Column("arm", "arm"),
    Column("purpose", "purpose"),
    Column("state", "state"),
    Column("concurrency", "conc.", numeric=True),
    Column("tokens_per_s", "tok/s", 1, numeric=True),
    Column("output_tokens_per_s", "e2e tok/s", 1, numeric=True),
    Column("acceptance_length", "L", 2, numeric=True),
    Column("cycle_ms", "C, ms", 2, numeric=True),
    Column("warmup_tokens_per_s", "warm-up tok/s", 1, numeric=True),
    Column("startup_s", "start, s", 1, numeric=True),
    Column("cell_s", "cell, s", 1, numeric=True),
    Column("attempt", "attempt", numeric=True),
    Column("failure", "failure"),
)


HOST = Column("host", "host")


def columns(facts: SweepFacts) -> tuple[Column, ...]:
    """Return the columns: the host is shown when there are several."""
    if len({cell.host for cell in facts.cells if cell.host}) < 2:
        return COLUMNS
    place = [column.name for column in COLUMNS].index("block") + 1
    return (*COLUMNS[:place], HOST, *COLUMNS[place:])


def launch_rows(facts: SweepFacts) -> list[dict[str, Value]]:
    """Return the rows in the order of the launches; a cell that measured nothing has one row without figures."""
    points = _points(facts)
    rows = []
    for cell in sorted(facts.cells, key=lambda cell: cell.order):
        for concurrency, point in points.get(cell.cell_id, {None: None}).items():
            rows.append(_row(cell, concurrency, point))
    return rows


def _points(facts: SweepFacts) -> dict[str, dict[int | None, LaunchPoint | None]]:
    """Return the measured points by cell and concurrency."""
    found: dict[str, dict[int | None, LaunchPoint | None]] = {}
    for level in facts.analysis.levels if facts.analysis else ():
        for arm in level.arms:
            for point in arm.points:
                found.setdefault(point.cell_id, {})[level.concurrency] = point
    return found


def _row(cell: CellFacts, concurrency: int | None, point: LaunchPoint | None) -> dict[str, Value]:
    purpose = "confirming" if cell.confirmation else "choosing"
    return {
        "order": cell.order + 1,
        "cell": cell.cell_id,
        "block": cell.block,
        "host": cell.host,
        "arm": cell.arm,
        "purpose": f"{purpose}, reused" if cell.reused else purpose,
        "state": cell.state,
        "concurrency": concurrency,
        "tokens_per_s": point.tokens_per_s if point else None,
        "output_tokens_per_s": point.output_tokens_per_s if point else None,
        "acceptance_length": point.acceptance_length if point else None,
        "cycle_ms": point.cycle_s * 1000 if point else None,
        "warmup_tokens_per_s": point.warmup_tokens_per_s if point else None,
        "startup_s": sum(cell.phase_seconds.values()) if cell.phase_seconds else None,
        "cell_s": cell.seconds or None,
        "attempt": cell.attempt,
        "failure": cell.failure_class,
    }


def shown(column: Column, row: Mapping[str, Value]) -> str:
    """Return a value as it is read."""
    value = row[column.name]
    if value is None or value == "":
        return "-"
    if isinstance(value, float) and column.digits is not None:
        return f"{value:.{column.digits}f}"
    return str(value)
