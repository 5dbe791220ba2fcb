"""The journal of a sweep that another process runs: what is in it, and waiting for what is not yet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controller.exits import ControllerError
from controller.journal import Record, read_journal

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


TIMEOUT_S = 240


def records_of(sweep: Path) -> list[Record]:
    """Return every record of a sweep's directory; none before there is a journal."""
    try:
        return list(read_journal(sweep / "journal.jsonl").records)
    except ControllerError:
        return []


def wait_for_record(process: subprocess.Popen[str], sweep: Path, kind: str, **fields: str) -> Record:
    """Wait until the journal holds such a record; a controller that ends before cannot write it."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for record in records_of(sweep):
            if record["kind"] == kind and fields.items() <= record.items():
                return record
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise TimeoutError(f"no {kind} {fields} within {TIMEOUT_S} s")
