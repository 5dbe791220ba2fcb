"""Runs a command in a terminal of its own and keeps everything that it printed, with times."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import select
import struct
import termios
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Output:
    """One piece of output.

    Attributes:
        at: Seconds since the command was started.
        text: What was printed, control sequences included.
    """

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Session:
    """A recorded command.

    Attributes:
        shown: The command as a reader would type it.
        width: Columns of the terminal.
        height: Lines of the terminal.
        outputs: What it printed.
        status: Its exit status.
    """

    shown: str
    width: int
    height: int
    outputs: tuple[Output, ...]
    status: int


def record(
    command: Sequence[str], shown: str, *, size: tuple[int, int], directory: Path, environment: Mapping[str, str]
) -> Session:
    """Run a command to its end in a terminal of ``size`` columns and lines.

    Raises:
        OSError: it cannot be started.
    """
    width, height = size
    started = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover - another process
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        os.chdir(directory)
        os.execvpe(command[0], list(command), dict(environment))  # noqa: S606 - no shell
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    outputs = []
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, CHUNK)
        except OSError:  # the last process that held the terminal has gone
            break
        if not data:
            break
        outputs.append(Output(time.monotonic() - started, decoder.decode(data)))
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return Session(shown, width, height, tuple(outputs), os.waitstatus_to_exitcode(status))


def faster(outputs: Sequence[Output], factor: float, least_s: float) -> tuple[Output, ...]:
    """Return the outputs ``factor`` times faster, those closer than ``least_s`` as one: a live display prints often."""
    merged: list[Output] = []
    for output in outputs:
        at = output.at / factor
        if merged and at - merged[-1].at < least_s:
            merged[-1] = Output(merged[-1].at, merged[-1].text + output.text)
        else:
            merged.append(Output(at, output.text))
    return tuple(merged)
