"""Exit codes, and the errors that carry them to the command line."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit code means. The numbers are an interface: scripts test them."""

    OK = 0
    RUN_FAILED = 1
    USAGE = 2
    TARGET = 3
    LOCKED = 4
    INTERRUPTED = 5
    JOURNAL = 6


MEANINGS: dict[Exit, str] = {
    Exit.OK: "done",
    Exit.RUN_FAILED: "a cell of the sweep failed, a verdict said no, apply took it back, or diagnose found a problem",
    Exit.USAGE: "bad usage or bad input",
    Exit.TARGET: "the target cannot be reached, or Ansible failed on it",
    Exit.LOCKED: "another sweep or deployment holds the node",
    Exit.INTERRUPTED: "interrupted; the sweep can be resumed",
    Exit.JOURNAL: "the journal cannot be written",
}


class ControllerError(Exception):
    """An error with one clear sentence for the operator and the exit code of the process.

    The sentence says what is wrong, where, and what to do.
    """

    exit_code: Exit = Exit.RUN_FAILED

    @property
    def sentence(self) -> str:
        """The sentence to show."""
        return str(self)


class InputError(ControllerError):
    """Bad usage, a bad file, a bad inventory, a plan that cannot be resumed."""

    exit_code = Exit.USAGE


class TargetError(ControllerError):
    """The target cannot be reached or Ansible failed on it."""

    exit_code = Exit.TARGET


class LockedError(ControllerError):
    """Another sweep holds the node."""

    exit_code = Exit.LOCKED


class JournalError(ControllerError):
    """The journal cannot be written or read."""

    exit_code = Exit.JOURNAL
