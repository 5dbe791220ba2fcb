"""``report``: the result of a sweep, made anew from its journal, and written down for others."""

from __future__ import annotations

from pathlib import Path

import click

from controller.cli.options import debug_option, json_option
from controller.cli.show import show_sweep
from controller.exits import Exit, InputError
from controller.paths import display
from controller.report.formats import FORMATS

GATES = ("hurts", "undecided", "equal", "pays")


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIRECTORY...", type=click.Path(path_type=Path))
@click.option("--html/--no-html", default=True, help="Write report.html (the default), or everything but that.")
@click.option(
    "--format",
    "formats",
    default="all",
    show_default=True,
    metavar="LIST",
    help=f"Files to write: {', '.join(FORMATS)}; all, or none.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Where to write them  [default: DIRECTORY]")
@click.option(
    "--fail-if",
    metavar="LIST",
    help=f"Exit with 1 when an arm has one of these verdicts: {', '.join(GATES)}. INVALID and FAILED always count.",
)
@click.option(
    "--fail-arm", "arms", multiple=True, metavar="ARM", help="Let --fail-if look at this arm only. Repeatable."
)
@click.option(
    "--monitoring-vars",
    is_flag=True,
    help="Print the thresholds of the role monitoring as YAML, and nothing else.",
)
@click.option("--arm", metavar="ARM", help="Whose thresholds  [default: the recommended arm's]")
@click.option(
    "--accept-changes", is_flag=True, help="Put directories together although their hosts differ; the report says so."
)
@json_option
@debug_option
def report(
    directories: tuple[Path, ...],
    *,
    html: bool,
    formats: str,
    output: Path | None,
    fail_if: str | None,
    arms: tuple[str, ...],
    monitoring_vars: bool,
    arm: str | None,
    accept_changes: bool,
    as_json: bool,
) -> int:
    """Show the result of the sweep in DIRECTORY, and write it: report.html, report.md, CSV, SVG, PNG, adaptive.json.

    The files are made from the journal alone and hold no link to anywhere else. --fail-if looks at every arm but the
    baseline, at every concurrency; "undecided" stands for UNCONFIRMED too. Several directories must be those of the
    controllers of one shared plan; they are put together in --output, which is then reported.

    \b
    Examples:
      python -m controller report sweeps/20260101T120000Z
      python -m controller report sweeps/20260101T120000Z --format none --fail-if hurts,undecided --fail-arm steps-3
      python -m controller report sweeps/20260101T120000Z --monitoring-vars
      python -m controller report sweeps/here sweeps/there --output sweeps/together
    """
    directory = directories[0]
    if len(directories) > 1:
        directory = _together(directories, output, accept_changes=accept_changes)
    if arm is not None and not monitoring_vars:
        raise InputError("--arm belongs to --monitoring-vars; --fail-arm chooses what --fail-if looks at.")
    if monitoring_vars:
        return _monitoring_vars(directory, arm)
    gates = _words("--fail-if", fail_if, GATES) if fail_if is not None else ()
    if arms and not gates:
        raise InputError("--fail-arm says where --fail-if looks; give --fail-if too.")
    wanted = [name for name in _formats(formats) if html or name != "html"]
    objections: list[str] = []
    if wanted or gates:
        from controller.report.facts import collect  # noqa: PLC0415 - only what is written or judged needs it

        facts = collect(directory)
        if gates:
            from controller.report.gate import gate_objections  # noqa: PLC0415

            objections = list(gate_objections(facts.analysis, gates, arms))
    code = Exit.RUN_FAILED if objections else Exit.OK
    show_sweep(directory, as_json=as_json, sentences=objections, exit_code=code)
    if wanted:
        from controller.report.files import write_report  # noqa: PLC0415

        written = write_report(facts, output or directory, wanted)
        names = ", ".join(path.name for path in written)
        click.echo(f"wrote {names} in {display(output or directory)}", err=True)
    return code


def _monitoring_vars(directory: Path, arm: str | None) -> int:
    from controller.report.facts import collect  # noqa: PLC0415
    from controller.report.monitoring_vars import monitoring_bounds, monitoring_yaml  # noqa: PLC0415

    facts = collect(directory)
    click.echo(monitoring_yaml(monitoring_bounds(facts.analysis, arm), facts.plan.sweep_id))
    return Exit.OK


def _together(directories: tuple[Path, ...], output: Path | None, *, accept_changes: bool) -> Path:
    """Put the directories of several controllers together and return where.

    Raises:
        InputError: there is no --output, or they do not belong together.
    """
    from controller.fleet.merge import merge  # noqa: PLC0415 - most reports are of one directory

    if output is None:
        raise InputError("several directories are put together in a new one; name it with --output.")
    for sentence in merge(directories, output, accept_changes=accept_changes):
        click.echo(sentence, err=True)
    return output


def _formats(text: str) -> tuple[str, ...]:
    if text == "none":
        return ()
    return FORMATS if text == "all" else _words("--format", text, FORMATS)


def _words(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Parse a list of words.

    Raises:
        InputError: it is empty or holds another word.
    """
    words = tuple(word.strip().lower() for word in text.split(","))
    for word in words:
        if word not in known:
            raise InputError(f"{option}: {word!r} is none of {', '.join(known)}.")
    return words
