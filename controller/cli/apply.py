"""``apply``: deploy what a sweep recommends, prove it with a canary, take it back when it does not hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from controller.apply.errors import RefusedError
from controller.cli.deployment_progress import deployment_watcher
from controller.cli.deployments import SCHEMA, make_deployer, rollback_command, show_end
from controller.cli.options import debug_option, find_target, inventory_of, json_option, target_options
from controller.exits import Exit, InputError
from controller.paths import display
from controller.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.apply.evidence import Difference, Evidence
    from controller.inventory import Target


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--arm", metavar="NAME", help="Deploy this arm instead of the one that the sweep recommends.")
@click.option("--force", is_flag=True, help="Deploy although the evidence speaks against it. The canary still decides.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--plain", is_flag=True, help="Plain lines instead of the live display.")
@target_options
@json_option
@debug_option
def apply(
    directory: Path,
    arm: str | None,
    inventory: Path | None,
    limit: str | None,
    *,
    force: bool,
    yes: bool,
    plain: bool,
    as_json: bool,
) -> int:
    """Deploy what the sweep in DIRECTORY recommends, and take it back by itself when it does not hold.

    The arm's settings are written to the host's variables beside the inventory (host_vars), the server is deployed, and
    a canary asks the sweep's first prompts again: it must be as fast as the sweep predicts, and its answers must be
    the baseline's as often as the baseline's are. Else the settings before come back and the server is restarted.

    \b
    Examples:
      python -m controller apply sweeps/20260101T120000Z
      python -m controller apply sweeps/20260101T120000Z --yes -i inventory/production.yml
      python -m controller apply sweeps/20260101T120000Z --arm baseline

    Exit codes: 0 deployed, or nothing to change; 1 refused by the evidence, or taken back; 2 bad input; 3 target or
    Ansible failed, so the server may be down; 4 locked; 5 interrupted and taken back; 6 history not writable.
    """
    from controller.apply.evidence import read_evidence  # noqa: PLC0415 - imports scipy

    inventory, limit = _target_of_the_sweep(directory, inventory, limit)
    target = find_target(inventory, limit, create=True, alone=True)
    plain = plain or as_json or not yes  # a live line and a question would write over each other
    try:
        evidence = read_evidence(directory, target, arm, force=force)
        if evidence.choice.no_change:
            return _nothing_to_do(evidence, target, as_json=as_json)
        return _deploy(
            evidence, target, forced=force and bool(evidence.choice.objections), yes=yes, plain=plain, as_json=as_json
        )
    except RefusedError as refusal:
        if not as_json:
            raise
        _show_document(target, "refused", refusal.sentence, refusal.exit_code)
        return int(refusal.exit_code)


def _deploy(evidence: Evidence, target: Target, *, forced: bool, yes: bool, plain: bool, as_json: bool) -> int:
    with deployment_watcher(Console(stderr=True), plain=plain, simulated=target.simulated) as shown:
        deployer = make_deployer(target, shown)
        deployer.refuse_on_top_of_another()
        change = evidence.change(target, deployer.host_vars, forced=forced)
        differences = evidence.differences(change, target, deployer.host_vars)
        if not yes:
            _ask(evidence, target, deployer.host_vars.path, differences)
        end = deployer.apply(change, evidence.prove(target))
    more: dict[str, Any] = {
        "arm": evidence.choice.arm,
        "verdict": evidence.choice.verdict,
        "forced": forced,
        "sweep_id": evidence.plan.sweep_id,
        "file": str(deployer.host_vars.path),
        "settings": redact(dict(change.settings)),
        "changes": [{"name": one.name, "now": redact(one.now), "then": redact(one.then)} for one in differences],
    }
    show_end(end, target, as_json=as_json, more=more)
    return int(end.exit_code)


def _target_of_the_sweep(directory: Path, inventory: Path | None, limit: str | None) -> tuple[Path | None, str | None]:
    """Return the inventory and the host that the sweep measured, unless others are given."""
    from controller.sweep.results import read_sweep  # noqa: PLC0415

    if not directory.is_dir():
        raise InputError(f"{directory} is not a directory; give the directory of a sweep.")
    plan, _ = read_sweep(directory)
    measured = None if plan.hosts else plan.limit  # of a fleet, one at a time: --limit says which
    return inventory_of(plan, inventory), limit or measured


def _nothing_to_do(evidence: Evidence, target: Target, *, as_json: bool) -> int:
    sentence = (
        f"Nothing was changed. {evidence.choice.no_change} To serve without speculation: "
        f"python -m controller apply {display(evidence.directory)} --arm {evidence.analysis.baseline or 'baseline'}"
    )
    if as_json:
        _show_document(target, "unchanged", sentence, Exit.OK)
    else:
        Console().out(sentence, highlight=False)
    return int(Exit.OK)


def _show_document(target: Target, outcome: str, sentence: str, code: Exit) -> None:
    """Print the document of an end at which nothing was touched."""
    document = {"schema": SCHEMA, "outcome": outcome, "target": target.host, "simulated": target.simulated}
    click.echo(json.dumps(document | {"exit_code": int(code), "messages": [sentence]}, indent=2))


def _ask(evidence: Evidence, target: Target, path: Path, differences: Sequence[Difference]) -> None:
    """Show what will change and ask.

    Raises:
        InputError: nobody is there to answer.
        RefusedError: the answer is no.
    """
    lines = [f"{evidence.choice.arm} ({evidence.choice.verdict}) goes to {target.title}; written to {display(path)}:"]
    lines += [f"  {one.sentence}" for one in differences] or ["  no variable changes; the server is deployed again"]
    lines += [f"although: {text}" for text in evidence.choice.objections]
    lines += [f"The server is restarted. The way back: {rollback_command(target)}"]
    for line in lines:
        click.echo(line, err=True)
    if not sys.stdin.isatty():
        raise InputError("nobody is there to confirm this; give --yes to deploy without being asked.")
    if not click.confirm("Deploy?", err=True):
        raise RefusedError("not deployed, nothing was changed: the answer was no.")
