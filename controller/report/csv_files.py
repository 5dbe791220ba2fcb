"""CSV for spreadsheets and notebooks: launches, and requests."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import PHASES

from controller.redaction import redact
from controller.report.rows import columns, launch_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.report.facts import SweepFacts

REQUEST_COLUMNS = (
    "prompt_id", "run", "warmup", "concurrency", "started_s", "ttft_s", "e2e_s", "decode_s", "prompt_tokens",
    "completion_tokens", "verify_steps", "first_chunk_tokens", "error",
)  # fmt: skip
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def cells_csv(facts: SweepFacts) -> str:
    """Return one line for each launch and concurrency, with the seconds of each phase of the start."""
    phases = {cell.cell_id: cell.phase_seconds for cell in facts.cells}
    names = [column.name for column in columns(facts)]
    rows: list[list[object]] = [
        [*(row[name] for name in names), *(phases[str(row["cell"])].get(phase) for phase in PHASES)]
        for row in launch_rows(facts)
    ]
    return _csv([*names, *(f"{phase}_s" for phase in PHASES), "simulated"], _with_simulated(rows, facts))


def requests_csv(facts: SweepFacts) -> str:
    """Return one line for each request, warm-up included. Times in unscaled seconds."""
    rows = [
        [cell.cell_id, cell.arm, *(_of(request, name) for name in REQUEST_COLUMNS)]
        for cell in facts.cells
        for request in cell.requests
    ]
    return _csv(["cell", "arm", *REQUEST_COLUMNS, "simulated"], _with_simulated(rows, facts))


def _of(request: Mapping[str, object], name: str) -> object:
    value = request.get(name)
    return redact(value) if isinstance(value, str) else value


def _with_simulated(rows: Iterable[list[object]], facts: SweepFacts) -> Iterable[list[object]]:
    return ([*row, facts.simulated] for row in rows)


def _csv(header: list[str], rows: Iterable[list[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_safe(value) for value in row] for row in rows)
    return out.getvalue()


def _safe(value: object) -> object:
    """Keep a spreadsheet from running text that came from a log as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value
