"""A sweep directory with the figures a test asks for: what is read back is what a real sweep would have written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.arms import Arm, baseline, steps_arm
from controller.journal import Journal
from controller.plan import Plan, schedule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

EVIL = "<script>document.title='owned'</script>"
TOKENS = 256


def requests(tps: float, length: float | None, *, count: int = 4, concurrency: int = 1) -> list[dict[str, Any]]:
    """Return the records of one run at exactly this speed and (nearly) this acceptance length."""
    decode_s = (TOKENS - 1) / tps
    steps = None if length is None else round((TOKENS - 1) / length)
    rows = []
    for number in range(count):
        histogram = None
        if steps is not None:
            accepted = TOKENS - 1 - steps
            histogram = [max(0, steps - accepted), min(steps, accepted)]
        rows.append(
            {
                "prompt_id": number, "run": 0, "warmup": False, "started_s": number * (decode_s + 0.1), "ttft_s": 0.1,
                "e2e_s": decode_s + 0.1, "decode_s": decode_s, "prompt_tokens": 50, "completion_tokens": TOKENS,
                "verify_steps": steps, "accept_histogram": histogram,
                "inter_token_s": {
                    "count": 2, "mean_s": 0.02, "p50_s": 0.02, "p90_s": 0.03, "p99_s": 0.03, "max_s": 0.04,
                },
                "text_sha256": "0" * 64, "error": None, "concurrency": concurrency, "first_chunk_tokens": 1,
            }
        )  # fmt: skip
    return rows


def write_sweep(
    directory: Path,
    speeds: Mapping[str, Sequence[float]],
    *,
    lengths: Mapping[str, float] | None = None,
    arms: Sequence[Arm] | None = None,
    failing: Mapping[str, Mapping[str, Any]] | None = None,
    levels: Sequence[int] = (1,),
    seed: int = 7,
    simulated: bool = True,
    argv: Sequence[str] = (),
) -> Path:
    """Write plan and journal of a sweep.

    Args:
        directory: Where.
        speeds: {arm: tok/s in each block}; steps-N are speculating arms.
        lengths: {arm: acceptance length}, 1.8 when not given.
        arms: The arms, when their settings matter.
        failing: {cell id: failure}, for cells that failed.
        levels: Concurrencies; speeds are the same in each.
        seed: Of the plan and of the workload.
        simulated: Whether the figures are.
        argv: What is added to each server's command line.
    """
    directory.mkdir(parents=True, exist_ok=True)
    used = arms or [baseline() if name == "baseline" else steps_arm(int(name.rpartition("-")[2])) for name in speeds]
    blocks = max(len(values) for values in speeds.values())
    plan = Plan(
        sweep_id=f"sweep-{seed}", created="2026-01-01T12:00:00+00:00", inventory="inventory/simulator",
        limit="simulated", arms=tuple(used), cells=schedule(used, blocks, seed), blocks=blocks, seed=seed,
        workload={"name": "mixed", "output_tokens": TOKENS, "concurrency_levels": list(levels), "seed": seed},
        workload_fingerprint=f"{seed:064d}", max_running_requests=16, cuda_graph_max_bs=None, simulated=simulated,
    )  # fmt: skip
    plan.write(directory / "plan.json")
    (directory / "journal.jsonl").unlink(missing_ok=True)
    with Journal(directory / "journal.jsonl") as journal:
        journal.append(
            "sweep", sweep_id=plan.sweep_id, plan=plan.as_json(), versions={"controller": "0.1.0"},
            arguments=["sweep", "--steps", "2,3", "--dir", "x"], target="simulated",
        )  # fmt: skip
        for cell in plan.cells:
            _cell(journal, directory, plan, cell.cell_id, speeds, lengths or {}, failing or {}, levels, argv)
        journal.append("end", reason="ok")
    return directory


def _cell(
    journal: Journal,
    directory: Path,
    plan: Plan,
    cell_id: str,
    speeds: Mapping[str, Sequence[float]],
    lengths: Mapping[str, float],
    failing: Mapping[str, Mapping[str, Any]],
    levels: Sequence[int],
    argv: Sequence[str],
) -> None:
    cell = next(cell for cell in plan.cells if cell.cell_id == cell_id)
    place = {"cell": cell_id, "arm": cell.arm, "block": cell.block, "attempt": 1}
    folder = directory / "cells" / cell_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.log").write_text("a log\n")
    journal.append("cell", **place, state="launching")
    if cell_id in failing:
        journal.append("cell", **place, state="failed", s=3.0, failure=dict(failing[cell_id]))
        return
    settings = plan.arm(cell.arm).settings
    speculates = bool(settings.get("sglang_server_speculative", True))
    journal.append(
        "server", **place, url="http://127.0.0.1:1",
        launch={"launch_id": cell_id, "argv": ["python3", "-m", "sglang.launch_server", *argv]},
        info={
            "version": "0.5.15", "served_model_name": "m",
            "speculative_num_steps": settings.get("sglang_server_speculative_num_steps"),
        },
        phases=[
            {"name": "starting", "started_s": 0.0, "ended_s": 1.5},
            {"name": "weights", "started_s": 1.5, "ended_s": 5.0},
            {"name": "serving", "started_s": 5.0, "ended_s": None},
        ],
    )  # fmt: skip
    speed = speeds[cell.arm][cell.block - 1]
    length = lengths.get(cell.arm, 1.8) if speculates else None
    for level in levels:
        rows = requests(speed, length, concurrency=level)
        journal.append("run", cell=cell_id, attempt=1, run=0, warmup=False, concurrency=level, requests=rows)
    journal.append("cell", **place, state="done", s=12.0)


BASELINE = (82.0, 83.0, 82.5)
SLOWER = (60.0, 60.5, 61.0)
FASTER = (95.0, 96.0, 95.5)
FAILURE: dict[str, Any] = {
    "class": "oom", "sentence": f"GPU 3 is full. {EVIL}", "phase": "weights", "cause": "GPU 3 is full.",
    "remedy": "Lower the memory.", "exit_status": 1,
    "log_tail": ["=HYPERLINK(1)", EVIL, "args: --api-key hunter22 api_key='hunter22'", "<img src=http://192.0.2.1/x>"],
}  # fmt: skip


def story(directory: Path) -> Path:
    """Write a sweep with an arm that hurts, an arm of an evil name, and a failed cell with an evil log."""
    evil = Arm(EVIL, dict(steps_arm(4).settings))
    speeds = {"baseline": BASELINE, "steps-2": SLOWER, "steps-3": SLOWER, EVIL: SLOWER}
    arms = [baseline(), steps_arm(2), steps_arm(3), evil]
    return write_sweep(directory, speeds, arms=arms, failing={"b02-steps-3": FAILURE}, lengths={"steps-2": 1.7})
