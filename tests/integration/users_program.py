"""A program as a user starts it: a process in a session of its own, so that signals reach it alone."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SMALL_LOAD = ("--output-tokens", "16", "--prompts-per-run", "2")
"""Options of a sweep: enough to be a measurement, little enough for a test."""


def start_program(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start it with these variables on top of ours."""
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=os.environ | dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Wait for its end and return what it printed."""
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
