"""``doctor``: what would make a launch fail, asked before any weight is loaded. Changes nothing."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.cli.options import debug_option, find_target, json_option, target_options
from controller.exits import TargetError
from controller.playbooks import Playbooks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.inventory import Target

ALL_OK, WARNINGS, ERRORS = 0, 1, 2
"""Exit codes of this command only; 3 stays "the target cannot be reached, or Ansible failed"."""
_COLUMNS = ("name", "ok", "severity", "detail", "remedy", "runbook", "host")


@click.command()
@target_options
@click.option("--allreduce", is_flag=True, help="Also run a timed all-reduce over all GPUs (they must be free).")
@json_option
@debug_option
def doctor(inventory: Path | None, limit: str | None, *, allreduce: bool, as_json: bool) -> int:
    """Ask the Proxmox host and the container what would make the launch of this inventory fail.

    Nothing is started or changed. What cannot be known on a machine is shown as "?" and is no failure.

    Exit codes: 0 all ok, 1 warnings only, 2 errors (or bad usage), 3 the target cannot be reached or Ansible failed.
    """
    target = find_target(inventory, limit, create=True)
    with tempfile.TemporaryDirectory(prefix="controller-") as folder:
        variables: dict[str, Any] = {"preflight_enabled": True, "preflight_fail_on": "never"}
        if allreduce:
            variables["preflight_allreduce"] = True
        played = Playbooks(target).run("preflight", directory=Path(folder), extra_vars=variables)
    if not played.ok:
        raise TargetError(f"{target.title}: {played.sentence}")
    checks = [{name: row[name] for name in _COLUMNS} for row in played.results["preflight_info"]["checks"]]
    code = exit_code(checks)
    if as_json:
        document = {"ok": code == ALL_OK, "target": target.host, "simulated": target.simulated, "checks": checks}
        click.echo(json.dumps(document, indent=2))
    else:
        show(checks, target, Console())
    return code


def exit_code(checks: Sequence[Mapping[str, Any]]) -> int:
    """The exit code for these checks."""
    severities = {row["severity"] for row in checks if row["ok"] is False}
    if "error" in severities:
        return ERRORS
    return WARNINGS if severities else ALL_OK


def show(checks: Sequence[Mapping[str, Any]], target: Target, console: Console) -> None:
    """Print the table in the order of the checks, then what to do, errors first."""
    table = Table(title=target.title, title_justify="left", box=None, pad_edge=False)
    for heading in ("", "check", "host", "what was found"):
        table.add_column(heading, overflow="fold")
    for row in checks:
        sign, style = _mark(row)
        table.add_row(Text(sign, style), row["name"], row["host"], Text(row["detail"]))
    console.print(table)
    wrong = [row for row in checks if row["ok"] is False]
    for row in sorted(wrong, key=lambda row: str(row["severity"])):
        console.out(
            f"{row['severity']}: {row['name']} on {row['host']}: {row['remedy']} ({row['runbook']})", highlight=False
        )
    unknown = sum(row["ok"] is None for row in checks)
    console.print(
        f"{len(checks)} checks: {len(wrong)} failed, {unknown} cannot be answered here", markup=False, highlight=False
    )


def _mark(row: Mapping[str, Any]) -> tuple[str, str]:
    if row["ok"] is None:
        return "?", "dim"
    if row["ok"]:
        return "ok", "green"
    return ("ERROR", "bold red") if row["severity"] == "error" else ("warn", "yellow")
