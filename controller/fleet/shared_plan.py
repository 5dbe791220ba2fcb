"""A plan that several controllers share through PostgreSQL: published by the first, read by those that join."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from controller.exits import InputError
from controller.fleet.database import first_connection
from controller.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.load.workload import Workload

OWN = ("hosts", "limit", "inventory", "aa_noise", "aa_source")
"""What of a plan is each controller's own: its hosts, and the noise floor that was measured on them."""


def publish(url: str, plan: Plan, workload: Workload) -> None:
    """Write a new plan with its prompts and blocks.

    Raises:
        TargetError: the database cannot be used.
    """
    blocks = sorted({cell.block for cell in plan.cells})
    with first_connection(url) as connection, connection.transaction():
        connection.execute(
            "INSERT INTO sweep_plan (sweep_id, plan, prompts) VALUES (%s, %s, %s)",
            (plan.sweep_id, json.dumps(plan.as_json()), workload.lines()),
        )
        connection.execute(
            "INSERT INTO sweep_block (sweep_id, block) SELECT %s, unnest(%s::integer[])", (plan.sweep_id, blocks)
        )


def join(url: str, sweep_id: str) -> tuple[Plan, str]:
    """Return a published plan and its prompts (JSON lines).

    Raises:
        InputError: there is no such plan, or it is not one of this version.
        TargetError: the database cannot be used.
    """
    with first_connection(url) as connection:
        row = connection.execute("SELECT plan, prompts FROM sweep_plan WHERE sweep_id = %s", (sweep_id,)).fetchone()
        known = connection.execute("SELECT sweep_id FROM sweep_plan ORDER BY created DESC LIMIT 3").fetchall()
    if row is None:
        newest = ", ".join(name for (name,) in known) or "none"
        raise InputError(f"--join {sweep_id}: the shared plan has no such sweep; the newest are: {newest}.")
    try:
        return Plan.from_json(row[0]), row[1]
    except (KeyError, TypeError) as error:
        raise InputError(f"--join {sweep_id}: the plan is not one of this version ({error!r}).") from error


def for_hosts(plan: Plan, hosts: Sequence[str], inventory: str) -> Plan:
    """Return a shared plan as the controller of these hosts keeps it."""
    return dataclasses.replace(plan, hosts=tuple(hosts), limit=",".join(hosts), inventory=inventory)


def same_plan(one: Plan, other: Plan) -> bool:
    """Return whether two controllers worked on the same plan."""
    left, right = one.as_json(), other.as_json()
    return all(left[name] == right[name] for name in left if name not in OWN)
