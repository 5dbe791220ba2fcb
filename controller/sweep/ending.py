"""What is said when a sweep ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.exits import Exit, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from controller.inventory import Target
    from controller.journal import Journal


@dataclass(frozen=True, slots=True)
class SweepEnd:
    """How the sweep ended: the exit code, and sentences for the operator (the last one says what to do)."""

    exit_code: Exit
    sentences: tuple[str, ...] = ()


def keep_noise(journal: Journal, directory: Path, target: Target) -> str:
    """Journal and keep the noise floor of an A/A sweep; return what it is."""
    from controller.sweep import noise  # noqa: PLC0415 - only an A/A sweep needs it
    from controller.sweep.results import read_sweep  # noqa: PLC0415

    found = noise.measure(*read_sweep(directory), target)
    if found is None:
        return (
            f"no noise floor: that takes {noise.FEWEST_BLOCKS} blocks in which both arms were measured, and a "
            f"difference below {noise.LARGEST:.0%}."
        )
    journal.append("aa_noise", noise=found.noise, blocks=found.blocks, concurrency=list(found.concurrency))
    simulated = " (simulated)" if target.simulated else ""
    text = (
        f"the noise floor of {target.host} is {found.noise:.2%}{simulated}: two equal arms differ by less in "
        f"{found.blocks} blocks. Later sweeps of this node use it when it is more than their margin."
    )
    try:
        noise.keep(target, found)
    except InputError as error:
        return f"{text} But {error.sentence}"
    return text
