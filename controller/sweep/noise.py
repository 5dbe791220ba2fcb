"""The noise floor of a node: measured by an A/A sweep, kept in a small file, used as margin by later sweeps."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from controller.arms import BASELINE, BASELINE_AGAIN
from controller.exits import InputError
from controller.lock import node_key
from controller.paths import make_private, state_directory
from controller.private_file import write_private

if TYPE_CHECKING:
    from pathlib import Path

    from controller.inventory import Target
    from controller.plan import Plan
    from controller.sweep.state import SweepState

FEWEST_BLOCKS = 3
"""Two differences that happen to agree would make the noise look like nothing."""
LARGEST = 0.5
"""More than this is no noise floor but a broken measurement."""


@dataclass(frozen=True, slots=True)
class Noise:
    """A measured noise floor: relative difference at which two equal arms just count as equal."""

    noise: float
    blocks: int
    concurrency: tuple[int, ...]
    sweep_id: str
    measured: str
    node: str

    @property
    def source(self) -> str:
        """Where it comes from, in words."""
        return f"A/A sweep {self.sweep_id} of {self.measured[:10]}, {self.blocks} blocks"


def measure(plan: Plan, state: SweepState, target: Target) -> Noise | None:
    """Return the noise floor that an A/A sweep found; None with too few blocks or an absurd result."""
    from controller.analysis.sweep import aa_noise  # noqa: PLC0415 - imports scipy
    from controller.sweep.results import launches  # noqa: PLC0415 - imports this package's sweep

    measured = launches(plan, state)
    blocks = {arm: {one.block for one in measured if one.arm == arm and one.failure is None} for arm in _ARMS}
    both = blocks[BASELINE] & blocks[BASELINE_AGAIN]
    noise = aa_noise(measured, BASELINE, BASELINE_AGAIN) if len(both) >= FEWEST_BLOCKS else None
    if noise is None or noise >= LARGEST:
        return None
    return Noise(
        noise=round(noise, 5),
        blocks=len(both),
        concurrency=tuple(sorted({run.concurrency for one in measured for run in one.runs})),
        sweep_id=plan.sweep_id,
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        node=target.title,
    )


_ARMS = (BASELINE, BASELINE_AGAIN)


def keep(target: Target, noise: Noise) -> Path:
    """Write the noise floor of a node, in place of an older one.

    Raises:
        InputError: the state directory cannot be written.
    """
    path = _path(target)
    try:
        make_private(path.parent)
        write_private(path, json.dumps(asdict(noise), indent=1) + "\n")
    except OSError as error:
        raise InputError(f"cannot keep the noise floor in {path}: {error.strerror}; it is in the journal.") from error
    return path


def known(target: Target) -> Noise | None:
    """Return the noise floor kept for a node; None when there is none or it cannot be read."""
    try:
        data = json.loads(_path(target).read_text(encoding="utf-8"))
        noise = Noise(**{**data, "concurrency": tuple(data["concurrency"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return noise if 0 <= noise.noise < LARGEST else None


def _path(target: Target) -> Path:
    return state_directory() / "noise" / f"{node_key(target.lock_identity)}.json"
