"""One look at the server: where it stands now, without waiting for it to come up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from controller.playbooks import PlaybookRun
    from controller.sweep.ports import PlaybookRunner

SLICE_S = 2
ONLY_LOOK = {
    "sglang_health_interval": SLICE_S,
    "sglang_health_retries": 50_000_000,
    "sglang_health_effective_mismatch": "warn",
}
"""The budget of health.yml counts from the launch, so it must outlast the oldest server (this one: three years).

A server of a sweep may have other steps than the inventory, which is no fault here.
"""


def look(playbooks: PlaybookRunner, directory: Path, *, cancelled: Callable[[], bool] = lambda: False) -> PlaybookRun:
    """Run health.yml until it says something for the first time.

    A server that serves or is dead ends the playbook; for one that is still starting the first retry is the answer, and
    the run is cancelled (nothing on the target needs to be undone: it only looks).
    """
    seen: list[str] = []
    return playbooks.run(
        "health",
        directory=directory,
        extra_vars=ONLY_LOOK,
        on_phase=seen.append,
        cancelled=lambda: bool(seen) or cancelled(),
    )
