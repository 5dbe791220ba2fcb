"""Puts the directories of several controllers of one shared plan together: a sweep directory like any other.

Each controller's journal holds what it launched. A block counts where the shared plan said that it was finished, so no
block can count twice; what a controller measured of blocks that another finished stays in its own journal.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from typing import TYPE_CHECKING, Any

from controller.exits import InputError, JournalError
from controller.fleet import identity
from controller.fleet.shared_plan import same_plan
from controller.journal import Journal, read_journal
from controller.paths import display, make_private
from controller.sweep.files import JOURNAL, PLAN, PROMPTS
from controller.sweep.results import read_sweep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from controller.journal import Record
    from controller.plan import Plan
    from controller.sweep.state import SweepState

OF_LAUNCHES = frozenset({"cell", "server", "run", "foreign", "playbook"})
"""Kept when they are about a launch of a block that counts."""
OF_HOSTS = frozenset({"host", "block", "conditions", "accepted", "hosts_differ", "stopped"})
"""Kept always; of the blocks only what was finished."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """What one controller did."""

    directory: Path
    plan: Plan
    state: SweepState
    blocks: frozenset[int]

    def keeps(self, record: Record) -> bool:
        """Return whether a record belongs to what is put together."""
        if record["kind"] == "block":
            return record["state"] == "finished" and record["block"] in self.blocks
        if record["kind"] in OF_LAUNCHES and record.get("cell"):
            return any(cell.cell_id == record["cell"] and cell.block in self.blocks for cell in self.plan.cells)
        return record["kind"] in OF_HOSTS


def merge(directories: Sequence[Path], output: Path, *, accept_changes: bool = False) -> list[str]:
    """Write one sweep directory out of several; they stay as they are.

    Args:
        directories: Of the controllers of one shared plan.
        output: A directory without a sweep.
        accept_changes: Mix hosts that differ, and say so in the report.

    Returns:
        Sentences for the operator.

    Raises:
        InputError: the directories are not of one plan, a block was finished twice, or the output holds a sweep.
        HostsDifferError: the controllers measured hosts that are not alike.
        JournalError: the output cannot be written.
    """
    parts = [_part(directory) for directory in directories]
    _refuse_other_plans(parts)
    _refuse_blocks_done_twice(parts)
    differing = identity.differences(_identities(parts))
    if differing and not accept_changes:
        raise identity.refusal(differing)
    if (output / JOURNAL).exists() or (output / PLAN).exists():
        raise InputError(f"--output {display(output)} holds a sweep already; give a directory that does not.")
    hosts = tuple(dict.fromkeys(host for part in parts for host in part.plan.hosts))
    noisiest = max((part.plan for part in parts), key=lambda plan: plan.aa_noise or 0.0)
    plan = dataclasses.replace(
        parts[0].plan,
        hosts=hosts,
        limit=",".join(hosts),
        aa_noise=noisiest.aa_noise,
        aa_source=noisiest.aa_source,
    )
    try:
        _write(parts, plan, output, differing)
    except OSError as error:
        raise JournalError(f"cannot write {display(output)}: {error.strerror}.") from error
    done = sum(len(part.blocks) for part in parts)
    missing = len({cell.block for cell in plan.cells}) - done
    sentences = [f"{done} blocks of {len(parts)} controllers are together in {display(output)}"]
    if missing:
        sentences.append(f"{missing} blocks are finished by none of them; they are left out")
    return sentences


def _part(directory: Path) -> Part:
    plan, state = read_sweep(directory)
    if not plan.shared:
        raise InputError(
            f"{display(directory)} is not part of a shared plan; only directories of one shared plan can be put "
            "together. To compare two sweeps: python -m controller compare."
        )
    return Part(directory, plan, state, frozenset(state.finished_blocks))


def _refuse_other_plans(parts: Sequence[Part]) -> None:
    first = parts[0]
    for part in parts[1:]:
        if not same_plan(first.plan, part.plan):
            raise InputError(
                f"{display(first.directory)} (sweep {first.plan.sweep_id}) and {display(part.directory)} (sweep "
                f"{part.plan.sweep_id}) follow different plans; their launches are not pooled."
            )


def _refuse_blocks_done_twice(parts: Sequence[Part]) -> None:
    seen: dict[int, Path] = {}
    for part in parts:
        for block in sorted(part.blocks):
            if block in seen:
                raise InputError(
                    f"block {block} was finished in {display(seen[block])} and in {display(part.directory)}: is one of "
                    "them a copy of the other?"
                )
            seen[block] = part.directory


def _identities(parts: Sequence[Part]) -> dict[str, Mapping[str, str]]:
    return {
        f"{host} ({display(part.directory)})": part.state.host(host).configuration.node
        for part in parts
        for host in part.plan.hosts
        if part.state.host(host).configuration.node
    }


def _write(parts: Sequence[Part], plan: Plan, output: Path, differing: Mapping[str, Sequence[str]]) -> None:
    make_private(output)
    shutil.copyfile(parts[0].directory / PROMPTS, output / PROMPTS)
    (output / PROMPTS).chmod(0o600)
    kept: list[Record] = []
    for part in parts:
        kept += [record for record in read_journal(part.directory / JOURNAL).records if part.keeps(record)]
        for cell in part.plan.cells:
            source = part.directory / "cells" / cell.cell_id
            if cell.block in part.blocks and source.is_dir():
                shutil.copytree(source, output / "cells" / cell.cell_id, dirs_exist_ok=True)
    header: dict[str, Any] = dict(parts[0].state.header or {})
    for name in ("kind", "at", "plan", "sweep_id", "controller_id"):
        header.pop(name, None)
    header["merged"] = [str(part.directory) for part in parts]
    header["target"] = "; ".join(str((part.state.header or {}).get("target", "")) for part in parts)
    temporary = output / f".{JOURNAL}"
    temporary.unlink(missing_ok=True)
    with Journal(temporary) as journal:
        journal.append("sweep", sweep_id=plan.sweep_id, plan=plan.as_json(), **header)
        if differing:
            journal.append("hosts_differ", differences={host: list(some) for host, some in differing.items()})
    with temporary.open("a", encoding="utf-8") as file:
        for record in sorted(kept, key=lambda record: float(record.get("at", 0.0))):
            file.write(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")
    with Journal(temporary) as journal:
        journal.append("end", reason="merged")
    temporary.replace(output / JOURNAL)  # a kill leaves the whole journal or none
    plan.write(output / PLAN)
