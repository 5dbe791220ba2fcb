"""Writes the report at the end of a sweep. Nothing that goes wrong with it may change how the sweep ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.exits import ControllerError
from controller.paths import display
from controller.report.formats import FORMATS

if TYPE_CHECKING:
    from pathlib import Path


def keep_report(directory: Path) -> str:
    """Write every file of the report into the sweep directory.

    Returns:
        One sentence: where the report is, or why there is none.
    """
    try:
        return _write(directory)
    except ControllerError as error:
        cause = str(error.__cause__.strerror) if isinstance(error.__cause__, OSError) else error.sentence
    except KeyboardInterrupt:
        cause = "interrupted"
    except Exception as error:  # noqa: BLE001 - a fault of the report must not look like one of the sweep
        cause = " ".join(f"{type(error).__name__}: {error}".split())
    again = f"python -m controller report {display(directory)}"
    return (
        f"the report was not written ({cause.rstrip('.')}); nothing that was measured is lost; write it with: {again}"
    )


def _write(directory: Path) -> str:
    from controller.report.facts import collect  # noqa: PLC0415 - imports scipy: only the end of a sweep needs it
    from controller.report.files import write_report  # noqa: PLC0415

    facts = collect(directory)
    if facts.analysis is None:
        return "no report yet: nothing has been measured"
    written = write_report(facts, directory, FORMATS)
    return f"report: {display(written[0])}"
