"""Launches with exactly the figures a test asks for."""

from __future__ import annotations

from controller.analysis.model import Launch, Run

TOKENS = 100_000  # many, so that rounding the verify steps does not show
REQUESTS = 4


def run(tps: float, *, index: int = 0, length: float | None = None, concurrency: int = 1, **more: object) -> Run:
    decoded = TOKENS - REQUESTS
    fields = {
        "index": index,
        "concurrency": concurrency,
        "requests": REQUESTS,
        "completion_tokens": TOKENS,
        "decode_s": decoded / tps,
        "wall_s": decoded / tps + 10,
        "verify_steps": None if length is None else round(decoded / length),
        "ttft_s": (0.1, 0.2, 0.3, 0.4),
        "chunk_gap_s": (0.03,) * REQUESTS,
        **more,
    }
    return Run(**fields)  # type: ignore[arg-type]


def launch(
    arm: str,
    tps: float | list[float],
    *,
    block: int = 0,
    order: int | None = None,
    length: float | None = None,
    steps: int | None = None,
    levels: tuple[int, ...] = (1,),
    run_more: dict[str, object] | None = None,
    **more: object,
) -> Launch:
    speeds = [tps] * 3 if isinstance(tps, int | float) else tps
    if arm.startswith("steps="):
        steps = int(arm.removeprefix("steps=")) if steps is None else steps
        length = 1.8 if length is None else length
    runs = tuple(
        run(speed, index=index, length=length, concurrency=level, **(run_more or {}))
        for level in levels
        for index, speed in enumerate(speeds)
    )
    number = block * 10 + (steps or 0) if order is None else order
    return Launch(f"{block}-{arm}", block, number, arm, steps, runs, **more)  # type: ignore[arg-type]


def failed(arm: str, *, block: int = 0, steps: int | None = None, failure: str = "out_of_memory") -> Launch:
    return Launch(f"{block}-{arm}", block, block * 10 + (steps or 0), arm, steps, (), failure=failure)


def sweep(arms: dict[str, list[float]], baseline: list[float], **more: object) -> list[Launch]:
    launches = [launch("baseline", tps, block=block) for block, tps in enumerate(baseline)]
    for arm, speeds in arms.items():
        launches += [launch(arm, tps, block=block, **more) for block, tps in enumerate(speeds)]  # type: ignore[arg-type]
    return launches
