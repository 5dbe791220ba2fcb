"""Logs of SGLang 0.5.15 on an H200: each phase begins where a person reads it in the log, to the second of its stamps.

The seconds were read from the lines by hand: the stamp of the line that begins a phase, less that of `server_args=`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import diagnose_file
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import (
    LineAssembler,
    PhaseTracker,
    parse_stamp,
)

ROOT = Path(__file__).parents[4]
FIRST = "docs/evidence/2026-11-30-h200-random-draft/server-logs"
FULL = "docs/evidence/2026-11-30-h200-random-draft-full/server-logs"
KILLED = "tests/data/h200-logs/scheduler-killed.log"

BASELINE = ("distributed_init", "weights", "memory_pool", "target_graphs", "warmup", "serving")
SPECULATIVE = (
    "distributed_init",
    "weights",
    "draft_weights",
    "memory_pool",
    "target_graphs",
    "draft_graphs",
    "warmup",
    "serving",
)
CLASH = ("distributed_init", "weights")
BEGINS = {
    # Init torch, Load weight begin and end, Capture target prefill, max_total_num_tokens, fired up.
    f"{FIRST}/b01-baseline.log": (BASELINE, (13, 15, 15, 15, 22, 31)),
    f"{FIRST}/b02-baseline.log": (BASELINE, (11, 12, 13, 13, 18, 19)),
    f"{FULL}/b01-baseline.log": (BASELINE, (14, 15, 16, 16, 22, 31)),
    # Init torch, first Load weight begin, second one and its end, Capture target and draft prefill, and as above.
    f"{FIRST}/deploy.log": (SPECULATIVE, (11, 12, 12, 12, 14, 46, 58, 62)),
    f"{FIRST}/b01-steps-2.log": (SPECULATIVE, (10, 11, 11, 11, 12, 17, 22, 24)),
    f"{FIRST}/b01-steps-3.log": (SPECULATIVE, (14, 15, 15, 15, 16, 21, 27, 30)),
    f"{FIRST}/b02-steps-2.log": (SPECULATIVE, (13, 14, 15, 15, 15, 20, 25, 27)),
    f"{FIRST}/b02-steps-3.log": (SPECULATIVE, (14, 15, 15, 15, 15, 21, 26, 27)),
    f"{FULL}/b01-steps-2.log": (SPECULATIVE, (13, 14, 15, 15, 15, 21, 28, 30)),
    f"{FULL}/b01-steps-3.log": (SPECULATIVE, (13, 14, 14, 14, 15, 20, 26, 30)),
    KILLED: (SPECULATIVE, (26, 29, 30, 30, 32, 72, 84, 88)),
    # The draft's settings are refused before its weights are read.
    f"{FIRST}/clash.log": (CLASH, (10, 12)),
    f"{FULL}/clash.log": (CLASH, (11, 13)),
}
DIES = {KILLED, f"{FIRST}/clash.log", f"{FULL}/clash.log"}


def follow(name: str) -> PhaseTracker:
    assembler = LineAssembler()
    lines = [*assembler.feed((ROOT / name).read_bytes()), *assembler.rest()]
    stamps = [(parse_stamp(line)[0], line) for line in lines]
    started_at = next(stamp.epoch_s for stamp, line in stamps if stamp is not None and "server_args=" in line)
    now = max(stamp.epoch_s for stamp, _ in stamps if stamp is not None)
    speculative = any("speculative_algorithm='EAGLE3'" in line for _, line in stamps)
    tracker = PhaseTracker(started_at, speculative=speculative)
    for line in lines:
        tracker.feed(line, now)
    return tracker


def test_every_kept_log_is_in_the_table() -> None:
    kept = {str(path.relative_to(ROOT)) for path in ROOT.glob("docs/evidence/*h200-random-draft*/server-logs/*.log")}
    assert kept | {KILLED} == set(BEGINS)


@pytest.mark.parametrize("name", BEGINS)
def test_phases_begin_and_end_where_the_log_says(name: str) -> None:
    names, begins = BEGINS[name]
    found = follow(name)
    ends = [*begins, None]
    wanted = list(zip(("starting", *names), (0, *begins), ends, strict=True))
    assert [(phase.name, phase.started_s, phase.ended_s) for phase in found.phases] == wanted
    assert found.fatal == (name in DIES)
    assert found.port_open == (names[-1] == "serving")


@pytest.mark.parametrize(
    ("name", "failure_class", "phase"),
    [
        *[(name, "healthy", "serving") for name in BEGINS if "baseline" in name],
        # The draft has random weights: not one of its tokens is right.
        *[(name, "draft-unwired", "serving") for name in BEGINS if "steps" in name or "deploy" in name],
        *[(name, "draft-context", "draft_weights") for name in BEGINS if "clash" in name],
        (KILLED, "unknown", "serving"),
    ],
)
def test_diagnosis_of_a_real_log(name: str, failure_class: str, phase: str) -> None:
    with (ROOT / name).open("rb") as log:
        diagnosis = diagnose_file(log)
    assert (diagnosis.failure_class, diagnosis.phase) == (failure_class, phase)
