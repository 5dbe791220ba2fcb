"""Options that several commands share, and what they are turned into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controller.exits import InputError
from controller.inventory import Target, default_inventory, read_target
from controller.paths import SIMULATOR_INVENTORY

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.plan import Plan


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--inventory`` and ``--limit``."""
    function = click.option(
        "--limit", "-l", metavar="HOST", help="Which host of the group inference, when it has several."
    )(function)
    return click.option(
        "--inventory",
        "-i",
        type=click.Path(path_type=Path),
        help="Ansible inventory with a group inference. Without it: the simulated node, created when missing.",
    )(function)


def debug_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Accept ``--debug`` after the command too."""
    return click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")(function)


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")(function)


def find_target(inventory: Path | None, limit: str | None, *, create: bool, alone: bool = False) -> Target:
    """Return the target; the default one is the simulated node, which ``create`` makes when it is missing.

    Raises:
        InputError: the inventory is no good, or with ``alone`` the host runs its model together with others.
    """
    if inventory is not None:
        return read_target(inventory, limit, alone=alone)
    if create:
        from controller.cli.simulated import ensure_node  # noqa: PLC0415 - only the simulated default needs it

        ensure_node()
    return read_target(default_inventory(), limit, alone=alone)


def inventory_of(plan: Plan, given: Path | None) -> Path | None:
    """Return the inventory for more work on a sweep: the given one, else the one that it began with.

    None stands for the default, as without ``--inventory``: its simulated node is made again when it is gone.
    """
    began_with = Path(plan.inventory)
    return began_with if given is None and began_with != SIMULATOR_INVENTORY else given


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Parse ``1,8`` into different whole numbers of at least 1.

    Raises:
        InputError: it is something else.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts) or len(set(map(int, parts))) != len(parts):
        raise InputError(f"{option}: {text!r} is not a list of different whole numbers of at least 1, such as 1,8.")
    return tuple(map(int, parts))
