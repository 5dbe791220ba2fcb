"""The plan of a sweep: which cell (block, arm) is launched when, decided and written down before anything runs."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.arms import Arm
from controller.exits import InputError, JournalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One launch of one arm. ``order`` counts over the whole sweep from 0, ``block`` from 1."""

    cell_id: str
    block: int
    order: int
    arm: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a sweep decides up front; a resumed sweep reads it back and changes nothing.

    ``workload`` holds the settings of the workload (``controller.load.workload.Workload.settings``); its prompts are
    frozen beside the plan.
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

    def arm(self, name: str) -> Arm:
        """Return the arm called ``name``."""
        return next(arm for arm in self.arms if arm.name == name)

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        data["arms"] = [arm.as_json() for arm in self.arms]
        data["cells"] = [{name: getattr(cell, name) for name in Cell.__slots__} for cell in self.cells]
        return {"schema": SCHEMA, **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Rebuild a plan from :meth:`as_json`."""
        fields = {name: data[name] for name in cls.__slots__}
        fields["arms"] = tuple(Arm.from_json(arm) for arm in data["arms"])
        fields["cells"] = tuple(Cell(**cell) for cell in data["cells"])
        return cls(**fields)

    def write(self, path: Path) -> None:
        """Write the plan (0600).

        Raises:
            JournalError: the file cannot be written.
        """
        try:
            temporary = path.with_suffix(".tmp")
            temporary.touch(mode=0o600)
            temporary.write_text(json.dumps(self.as_json(), indent=2) + "\n", encoding="utf-8")
            temporary.replace(path)  # a kill leaves the whole plan or none
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


def schedule(arms: Sequence[Arm], blocks: int, seed: int) -> tuple[Cell, ...]:
    """Return every cell in launch order: each block launches each arm once, shuffled by ``seed``.

    The block is the unit of comparison: a drift of the machine hits the arms of a block alike, and the shuffle keeps
    one arm from always being launched first, on the coldest caches.
    """
    generator = random.Random(seed)  # noqa: S311 - an order, not a secret
    cells: list[Cell] = []
    for block in range(1, blocks + 1):
        names = [arm.name for arm in arms]
        generator.shuffle(names)
        for name in names:
            cells.append(Cell(cell_id=f"b{block:02d}-{name}", block=block, order=len(cells), arm=name))
    return tuple(cells)
