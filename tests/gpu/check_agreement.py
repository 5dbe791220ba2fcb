"""Whether a sweep's journal says what SGLang itself said: in its log beside the journal, and in ``/metrics``.

    python3 -m tests.gpu.check_agreement SWEEP [--metrics FILE] [--tolerance 0.02] [--json FILE]

For every measured cell: acceptance length L, seconds of a step (cycle time C, or T1 without speculation; prefills
between answers included) and S = L / C of the journal, beside those of the decode lines of ``cells/CELL/server.log``,
over exactly the steps that the log covers. The cache is flushed before each run, so the lines count from its first
step; the client knows when each answer began and ended, so it knows the moment of each 40th step too. The first line
of a run began before the run; it has a length but no time. With ``--metrics``, what ``tests/gpu/watch_metrics.py``
recorded meanwhile: exact counts of tokens, verify steps and seconds. Only runs with one request at a time can be told
apart by steps; others are left out with a note. The exit code is 1 when a figure differs by more than the tolerance or
nothing could be compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from controller.journal import Record, read_journal
from controller.load.records import RequestRecord
from tests.gpu import metrics_record
from tests.gpu.decode_log import INTERVAL, DecodeLine, stretches

FEWEST_LINES = 3
"""Of a run: with fewer, the log says too little."""


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """One figure of one cell, ours and the server's; times in unscaled seconds."""

    cell: str
    figure: str
    source: str
    own: float
    server: float

    @property
    def ratio(self) -> float:
        """Return own / server."""
        return self.own / self.server


@dataclasses.dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one run, one after the other, as a row of decode steps.

    Attributes:
        requests: In the order in which they were asked.
        idle_steps: What the server counts after each answer's last step: with the overlap schedule the next step has
            begun before the end of an answer is known (process_batch_result_decode, 0.5.15).
    """

    requests: tuple[RequestRecord, ...]
    idle_steps: int = 0

    @property
    def steps(self) -> int:
        """Decode steps of all answers as the server counts them."""
        return sum(steps_of(request) + self.idle_steps for request in self.requests)

    def at(self, step: int) -> tuple[float, int, float]:
        """Return (tokens made by verify steps, verify steps, seconds of the run) at this step of the server."""
        tokens, verified = 0.0, 0
        for request in self.requests:
            own = steps_of(request)
            done = min(step, own)
            tokens += (request.completion_tokens - 1) * done / own
            verified += done
            step -= own + self.idle_steps
            if step <= 0:
                return tokens, verified, request.started_s + request.ttft_s + request.decode_s * done / own
        raise ValueError("The log has more steps than the answers.")


def steps_of(request: RequestRecord) -> int:
    """Return the decode steps of one answer: verify steps, or one for each token but the first."""
    return request.completion_tokens - 1 if request.verify_steps is None else request.verify_steps


def compare_with_log(cell: str, answers: Answers, lines: list[DecodeLine], time_scale: float) -> list[Compared]:
    """Return the figures of one run over the steps that its decode lines cover."""
    lines = lines[: answers.steps // INTERVAL]
    if len(lines) < FEWEST_LINES:
        return []
    tokens, verified, end_s = answers.at(INTERVAL * len(lines))
    _, _, begin_s = answers.at(INTERVAL)
    timed = lines[1:]
    cycle_s, said_s = ((end_s - begin_s) / len(timed), sum(line.seconds for line in timed) / time_scale / len(timed))
    cycle_s, said_s = cycle_s / INTERVAL, said_s / INTERVAL
    found = [Compared(cell, "T1" if lines[0].length is None else "C", "log", cycle_s, said_s)]
    own_length = said_length = 1.0
    if lines[0].length is not None:
        own_length = tokens / verified
        said_length = sum(line.length or 0.0 for line in lines) / len(lines)
        found.append(Compared(cell, "L", "log", own_length, said_length))
    found.append(Compared(cell, "S", "log", own_length / cycle_s, said_length / said_s))
    return found


def compare_with_metrics(
    cell: str, requests: list[RequestRecord], said: metrics_record.Counts, time_scale: float
) -> list[Compared]:
    """Return the figures of a whole launch, warm-up included, beside the server's counters."""
    tokens = sum(request.completion_tokens for request in requests)
    decode_s = sum(request.decode_s for request in requests)
    verified = [request.verify_steps for request in requests if request.verify_steps is not None]
    found = [Compared(cell, "N", "/metrics", tokens, said.generated)]
    decoded = tokens - len(requests)
    if verified and said.verify_steps:
        length = (said.generated - said.requests) / said.verify_steps
        found.append(Compared(cell, "L", "/metrics", decoded / sum(verified), length))
    if said.decode_s:
        steps, own_steps = said.verify_steps or said.generated - said.requests, sum(verified) or decoded
        name = "C" if verified else "T1"
        found.append(Compared(cell, name, "/metrics", decode_s / own_steps, said.decode_s / time_scale / steps))
        speed = (said.generated - said.requests) / (said.decode_s / time_scale)
        found.append(Compared(cell, "S", "/metrics", decoded / decode_s, speed))
    return found


def compare_cell(
    cell: str, records: list[Record], log: Path, samples: list[metrics_record.Sample]
) -> tuple[list[Compared], str]:
    """Return everything about one cell, and a note on what could not be compared."""
    simulated = next((_simulated(record) for record in records if record["kind"] == "server"), {})
    scale = float(simulated.get("time_scale", 1.0))
    runs = [record for record in records if record["kind"] == "run"]
    asked = [[RequestRecord.from_json(request) for request in run["requests"]] for run in runs]
    if any(request.error for run in asked for request in run):
        return [], "requests failed"
    found: list[Compared] = []
    begun = [record["at"] for record in records if record["kind"] == "cell" and record["state"] == "measuring"]
    counts = metrics_record.between(samples, begun[-1], runs[-1]["at"]) if begun and runs else None
    if counts:
        found += compare_with_metrics(cell, [request for run in asked for request in run], counts, scale)
    if not log.exists():
        return found, "no log"
    if any(run["concurrency"] != 1 for run in runs):
        return found, "more than one request at a time"
    text = log.read_text(errors="replace")
    pieces = stretches(text)[-len(runs) :]
    idle_steps = int(not simulated and "disable_overlap_schedule=False" in text)
    if len(pieces) < len(runs):
        return found, "the log has fewer cache flushes than there were runs"
    for run, requests, lines in zip(runs, asked, pieces, strict=True):
        if not run["warmup"]:
            answers = Answers(tuple(sorted(requests, key=lambda request: request.started_s)), idle_steps)
            found += compare_with_log(cell, answers, lines, scale)
    return found, "" if found else "too few decode lines"


def _simulated(server: Record) -> dict[str, Any]:
    return (server.get("info") or {}).get("simulated") or {}


def finished_cells(sweep: Path) -> dict[str, list[Record]]:
    """Return the records of the last attempt of every cell that was measured."""
    attempts: dict[tuple[str, int], list[Record]] = {}
    done = {}
    for record in read_journal(sweep / "journal.jsonl").records:
        if "cell" not in record:
            continue
        key = record["cell"], record.get("attempt", 1)
        attempts.setdefault(key, []).append(record)
        if record["kind"] == "cell" and record["state"] == "done":
            done[record["cell"]] = attempts[key]
    return done


def main() -> int:
    """Compare every cell and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--metrics", type=Path, help="what watch_metrics.py recorded during the sweep")
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--json", type=Path, dest="json_file")
    options = parser.parse_args()
    samples = metrics_record.read(options.metrics) if options.metrics else []
    found: list[Compared] = []
    print(f"{'cell':20} {'figure':6} {'server says in':14} {'journal':>11} {'server':>11} {'journal / server':>16}")
    for cell, records in finished_cells(options.sweep).items():
        compared, note = compare_cell(cell, records, options.sweep / "cells" / cell / "server.log", samples)
        found += compared
        for one in compared:
            wrong = "" if abs(one.ratio - 1) <= options.tolerance else "  DIFFERS"
            print(f"{cell:20} {one.figure:6} {one.source:14} {_shown(one)} {one.ratio:16.4f}{wrong}")
        if note:
            print(f"{cell:20} {note}")
    apart = [one for one in found if abs(one.ratio - 1) > options.tolerance]
    for figure, source in sorted({(one.figure, one.source) for one in found}):
        ratios = [one.ratio for one in found if (one.figure, one.source) == (figure, source)]
        print(f"{figure:3} against {source:9}: {len(ratios)} cells, ratio {min(ratios):.4f} to {max(ratios):.4f}")
    print(f"{len(found)} figures compared, {len(apart)} differ by more than {options.tolerance:.1%}")
    if options.json_file:
        rows: list[dict[str, Any]] = [dataclasses.asdict(one) | {"ratio": one.ratio} for one in found]
        options.json_file.write_text(json.dumps({"tolerance": options.tolerance, "figures": rows}, indent=1) + "\n")
    return 1 if apart or not found else 0


def _shown(one: Compared) -> str:
    factor, unit = (1000, " ms") if one.figure in {"C", "T1"} else (1, "   ")
    return f"{one.own * factor:8.3f}{unit} {one.server * factor:8.3f}{unit}"


if __name__ == "__main__":
    raise SystemExit(main())
