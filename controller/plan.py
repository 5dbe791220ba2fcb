"""The plan of a sweep: which cell (block, arm) is launched when, decided and written down before anything runs."""

from __future__ import annotations

import dataclasses
import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.arms import Arm
from controller.exits import InputError, JournalError
from controller.launch_order import balanced_orders
from controller.private_file import write_private

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCHEMA = 1
DEFAULT_MARGIN = 0.02
"""Smallest relative difference that matters."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One launch of one arm. ``order`` counts over the whole sweep from 0, ``block`` from 1.

    ``confirmation`` marks a launch that only checks the winner and takes no part in choosing it.
    """

    cell_id: str
    block: int
    order: int
    arm: str
    confirmation: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a sweep decides up front; a resumed sweep reads it back and changes nothing.

    Attributes:
        blocks: Blocks that are measured in any case.
        max_blocks: The stop rule may add blocks up to this many; never fewer than ``blocks``.
        budget_s: The stop rule and the confirmation add nothing that would probably end later than this, in seconds of
            work on cells; None without a limit.
        confirm_blocks: Fresh blocks for winner and baseline once an arm pays; 0 for none.
        looks: Numbers of blocks at which the stop rule may look at the verdicts, ``blocks`` first.
        margin: Relative difference that matters, before noise.
        aa_noise: Noise floor of this node as a relative difference; None when it was not measured.
        aa_source: Where the noise floor comes from, in words.
        aa: True for an A/A sweep: two arms with the same settings, which measures the noise floor.
        limit: Host that is measured; the hosts of a fleet with commas between.
        hosts: Hosts of a sweep over a fleet; empty for a sweep of one host.
        shared: Several controllers work on the plan, each with a journal of its own.
        workload: Settings of the workload (``controller.load.workload.Workload.settings``); its prompts are frozen
            beside the plan.
        cells: The launches decided so far, those that the journal says were added included.
    """

    sweep_id: str
    created: str
    inventory: str
    limit: str
    arms: tuple[Arm, ...]
    cells: tuple[Cell, ...]
    blocks: int
    seed: int
    workload: Mapping[str, Any]
    workload_fingerprint: str
    max_running_requests: int
    cuda_graph_max_bs: int | None
    simulated: bool
    max_blocks: int = 0
    budget_s: float | None = None
    confirm_blocks: int = 0
    looks: tuple[int, ...] = ()
    margin: float = DEFAULT_MARGIN
    aa_noise: float | None = None
    aa_source: str = ""
    aa: bool = False
    hosts: tuple[str, ...] = ()
    shared: bool = False

    def with_cells(self, added: Sequence[Cell]) -> Plan:
        """Return the plan with launches that were decided on the way."""
        return dataclasses.replace(self, cells=(*self.cells, *added))

    def arm(self, name: str) -> Arm:
        """Return the arm called ``name``."""
        return next(arm for arm in self.arms if arm.name == name)

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        data["arms"] = [arm.as_json() for arm in self.arms]
        data["cells"] = [cell_json(cell) for cell in self.cells]
        data["looks"] = list(self.looks)
        data["hosts"] = list(self.hosts)
        return {"schema": SCHEMA, **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Rebuild a plan from :meth:`as_json`."""
        fields = {name: data[name] for name in cls.__slots__ if name in data}
        fields["arms"] = tuple(Arm.from_json(arm) for arm in data["arms"])
        fields["cells"] = tuple(Cell(**cell) for cell in data["cells"])
        fields["looks"] = tuple(data.get("looks", ()))
        fields["hosts"] = tuple(data.get("hosts", ()))
        return cls(**fields)

    def write(self, path: Path) -> None:
        """Write the plan (0600).

        Raises:
            JournalError: the file cannot be written.
        """
        try:
            write_private(path, json.dumps(self.as_json(), indent=2) + "\n")
        except OSError as error:
            raise JournalError(f"cannot write the plan {path}: {error.strerror}; nothing was started.") from error

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read a plan written by :meth:`write`.

        Raises:
            InputError: there is no plan, or it is not one of this version.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except NotADirectoryError:
            raise InputError(f"{path.parent} is a file; a sweep directory is wanted.") from None
        except FileNotFoundError:
            raise InputError(f"{path.parent} is not a sweep directory: it has no plan.json.") from None
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read the plan {path}: {error}.") from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise InputError(f"{path} is not a plan of this version (schema {SCHEMA}).")
        try:
            return cls.from_json(data)
        except (KeyError, TypeError) as error:
            raise InputError(f"{path} is damaged: {error!r}.") from error


def cell_json(cell: Cell) -> dict[str, Any]:
    """Return a cell as plain data for plan and journal."""
    return {name: getattr(cell, name) for name in Cell.__slots__}


def schedule(arms: Sequence[Arm], blocks: int, seed: int) -> tuple[Cell, ...]:
    """Return every cell in launch order: each block launches each arm once, in an order balanced over the blocks.

    The block is the unit of comparison: a drift of the machine hits the arms of a block alike, and the order keeps one
    arm from being launched first, on the coldest caches, more often than another.
    """
    return _cells([arm.name for arm in arms], blocks, str(seed), first_block=1, first_order=0)


def added_blocks(plan: Plan, names: Sequence[str], blocks: int, *, confirmation: bool = False) -> tuple[Cell, ...]:
    """Return more blocks of some of the arms, to be launched after all cells of the plan so far."""
    first_block = max(cell.block for cell in plan.cells) + 1
    return _cells(
        names,
        blocks,
        f"{plan.seed}, from block {first_block}",
        first_block=first_block,
        first_order=len(plan.cells),
        confirmation=confirmation,
    )


def _cells(
    names: Sequence[str], blocks: int, seed: str, *, first_block: int, first_order: int, confirmation: bool = False
) -> tuple[Cell, ...]:
    orders = itertools.islice(balanced_orders(names, seed), blocks)
    places = [(block, name) for block, order in enumerate(orders, start=first_block) for name in order]
    return tuple(
        Cell(f"b{block:02d}-{name}", block, order, name, confirmation)
        for order, (block, name) in enumerate(places, start=first_order)
    )
