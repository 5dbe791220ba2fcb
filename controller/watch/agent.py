"""Runs on the target for as long as somebody watches: follows the log and asks nvidia-smi. Standard library only.

The text of this file is sent through the connection and run there; nothing is written on the target. It says one JSON
object a line: ``{"text": …}`` for what the log grew by (``"fresh": true`` when it begins anew), ``{"gpu": …}`` for an
answer of nvidia-smi, ``{"gpu_error": …}`` and ``{"log_error": …}`` for why there is none. It ends when its standard
input does: it cannot outlive the connection.

Arguments: log file, nvidia-smi (may be empty), seconds between two looks at the GPUs, "once" or "follow".
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time

QUERY = "--query-gpu=index,memory.used,memory.total,power.draw,temperature.gpu"
FORM = "--format=csv,noheader,nounits"
SMI_TIMEOUT_S = 20.0
TICK_S = 1.0
FIRST_BYTES = 256 * 1024
MOST_BYTES = 1024 * 1024  # of one look at the log: a log that grows faster is not read by people either


def say(**content: object) -> None:
    """Send one object."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def look_at_gpus(program: str) -> None:
    """Send one sample, or why there is none."""
    try:
        done = subprocess.run(  # noqa: PLW1510 - the status is looked at
            [program, QUERY, FORM], capture_output=True, text=True, timeout=SMI_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        say(gpu_error=f"{program}: {type(error).__name__}")
        return
    if done.returncode:
        say(gpu_error=(done.stdout + done.stderr).strip()[:300] or f"{program} failed")
    else:
        say(gpu=done.stdout)


class Log:
    """A file that is followed by its name, through rotation and through launches with another inode."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._inode = -1
        self._position = 0
        self._missing = False

    def look(self) -> None:
        """Send what is new."""
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123 - no pathlib: this runs beside a server
                state = os.fstat(file.fileno())
                fresh = state.st_ino != self._inode or state.st_size < self._position
                if fresh:
                    first_ever = self._inode < 0
                    self._inode = state.st_ino
                    self._position = max(0, state.st_size - FIRST_BYTES) if first_ever else 0
                if fresh or state.st_size > self._position:
                    file.seek(self._position)
                    grown = file.read(MOST_BYTES)
                    self._position += len(grown)
                    say(text=grown.decode("utf-8", "replace"), fresh=fresh)
                self._missing = False
        except OSError as error:
            if not self._missing:
                say(log_error=f"{self._path}: {error.strerror}")
            self._missing = True


def ended() -> bool:
    """Wait one tick and say whether the connection is gone."""
    readable, _, _ = select.select([0], [], [], TICK_S)
    return bool(readable) and not os.read(0, 65536)


def main(arguments: list) -> None:  # type: ignore[type-arg]  # Python 3.9 without an import of typing
    """Watch until the connection ends, or look once."""
    log_file, nvidia_smi, every_s, mode = arguments
    log, next_gpus = Log(log_file), 0.0
    while True:
        log.look()
        if nvidia_smi and time.monotonic() >= next_gpus:
            look_at_gpus(nvidia_smi)
            next_gpus = time.monotonic() + float(every_s)
        if mode == "once" or ended():
            return


if __name__ == "__main__":
    try:
        main(sys.argv[-4:])
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
