"""``diagnose``: from the log of a launch to its cause and remedy."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import CLASSES
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import diagnose_file

from controller.cli.options import debug_option, find_target, json_option, target_options
from controller.exits import Exit, InputError, TargetError
from controller.playbooks import Playbooks
from controller.redaction import redact_text

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import Diagnosis

    from controller.inventory import Target

LOG_NAME = "server.log"


@click.command()
@click.argument("log", metavar="[FILE|-]", required=False)
@click.option("--host", "from_host", is_flag=True, help="Read the log of the newest launch on the inventory's host.")
@target_options
@json_option
@debug_option
def diagnose(log: str | None, inventory: Path | None, limit: str | None, *, from_host: bool, as_json: bool) -> int:
    """Say from a log why a launch of SGLang failed, where it stood, and what to do.

    FILE may also be a kernel log, the output of ps or nvidia-smi, or Ansible's; - reads standard input. Exit code 0:
    the server is healthy; 1: a problem was found, or the log does not say; 2: bad input.
    """
    if from_host == (log is not None):
        raise InputError("give one thing to diagnose: a FILE, - for standard input, or --host.")
    if not from_host and (inventory is not None or limit is not None):
        raise InputError("--inventory and --limit belong to --host; without it they say nothing about the file.")
    found = _of_host(find_target(inventory, limit, create=True)) if log is None else _of_file(log)
    document = found.document() | {"cause": redact_text(found.cause)}
    click.echo(json.dumps(document, indent=2) if as_json else _text(document))
    return Exit.RUN_FAILED if found.is_problem else Exit.OK


def _of_file(name: str) -> Diagnosis:
    if name == "-":
        return _read(sys.stdin.buffer, "standard input")
    try:
        with Path(name).open("rb") as log:
            return _read(log, name)
    except OSError as error:
        raise InputError(
            f"{name} cannot be read ({error.strerror}); give the path of a log, or - for standard input."
        ) from error


def _read(log: IO[bytes], name: str) -> Diagnosis:
    first = log.read(1)
    if not first:
        raise InputError(f"{name} is empty; give a log of SGLang.")
    return diagnose_file(log, first)


def _of_host(target: Target) -> Diagnosis:
    """Fetch the end of the newest launch's log and diagnose it.

    Raises:
        TargetError: the host cannot be reached or has no log.
    """
    with tempfile.TemporaryDirectory(prefix="controller-") as folder:
        destination = Path(folder, LOG_NAME)
        played = Playbooks(target).run(
            "diagnose", directory=Path(folder), extra_vars={"diagnose_log_dest": str(destination)}
        )
        if not played.ok:
            raise TargetError(f"the log on {target.title} cannot be fetched: {played.sentence}")
        return _of_file(str(destination))


def _text(found: dict[str, object]) -> str:
    """Return the diagnosis for people."""
    where = f", phase {found['phase']}" if found["phase"] != "unknown" else ""
    rows = [("class", f"{found['class']} ({CLASSES[str(found['class'])].meaning}){where}")]
    if found["cause"]:
        line = f" (line {found['line_number']})" if found["line_number"] else ""
        rank = f"{found['rank']}: " if found["rank"] else ""
        rows.append(("cause", f"{rank}{found['cause']}{line}"))
    rows.append(("remedy", str(found["remedy"])))
    rows.append(("confidence", str(found["confidence"])))
    if found["version"]:
        rows.append(("version", str(found["version"])))
    rows.append(("runbook", str(found["runbook"])))
    return "\n".join(f"{name:10}  {text}" for name, text in rows)
