"""Run an external command that may hang for ever.

``subprocess.run(timeout=...)`` waits for the killed child without a limit; a child that sits in an uninterruptible
driver call (a hanging nvidia-smi) would take the module with it. Here a child that outlives SIGKILL is left behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import Sequence

REAP_S = 1.0
"""How long a killed child gets to disappear."""


@dataclass(frozen=True)
class CommandResult:
    """What a finished command said. ``returncode`` is negative when a signal ended it."""

    returncode: int
    stdout: str
    stderr: str

    def words(self) -> str:
        """What the command itself said, on one line: stderr first, then stdout, at most 300 characters."""
        text = " ".join((self.stderr.strip() or self.stdout.strip()).split())
        return text[:300] or "(no output)"


class CommandTimeoutError(Exception):
    """The command gave no answer within its limit."""


class CommandNotFoundError(Exception):
    """The program does not exist or may not be executed."""


def run_bounded(argv: Sequence[str], timeout_s: float) -> CommandResult:
    """Run ``argv`` without a shell and return its output.

    Args:
        argv: program and arguments.
        timeout_s: seconds before the command and its process group are killed.

    Raises:
        CommandNotFoundError: the program cannot be started.
        CommandTimeoutError: no answer within ``timeout_s``.
    """
    environment = dict(os.environ, LC_ALL="C")
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise CommandNotFoundError(f"{argv[0]}: {error.strerror or error}") from error
    try:
        stdout, stderr = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        _abandon(child)
        raise CommandTimeoutError(f"{argv[0]} gave no answer within {timeout_s:g} s") from error
    return CommandResult(child.returncode, stdout, stderr)


def _abandon(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=REAP_S)
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
