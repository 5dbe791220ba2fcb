"""One connection to the target that stays open: it brings the log and the GPUs (see ``agent``)."""

from __future__ import annotations

import contextlib
import inspect
import json
import shlex
import subprocess
import threading
from typing import IO, TYPE_CHECKING

from controller.watch import agent
from controller.watch.events import Gpu, GpusSeen, LogGrew, TargetNote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controller.watch.events import Access, Event

SOURCE = inspect.getsource(agent).encode()
LOADER = f"import sys;exec(compile(sys.stdin.buffer.read({len(SOURCE)}),'watch','exec'))"
SSH = (
    *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"),
)
RETRY_S = (5.0, 15.0, 60.0)
"""Seconds before the next try to connect; the last one repeats."""


def command(access: Access, gpu_every_s: float, mode: str) -> list[str]:
    """Return the command that runs the agent on the target.

    Raises:
        ValueError: this kind of connection cannot be kept open here; the sentence says so.
    """
    words = [access.python, "-I", "-S", "-c", LOADER, access.log_file, access.nvidia_smi, f"{gpu_every_s:g}", mode]
    if access.become:
        words = ["sudo", "-n", "--", *words]
    if access.connection == "local":
        return words
    if access.connection not in ("ssh", "paramiko"):
        message = (
            f"log and GPUs are not followed over Ansible's connection {access.connection!r}, only over ssh and local"
        )
        raise ValueError(message)
    options: list[str] = []
    for flag, value in (("-l", access.user), ("-p", access.port), ("-i", access.key_file)):
        options += [flag, value] if value else []
    return [*SSH, *options, *access.arguments, access.address, shlex.join(words)]


class TargetStream(threading.Thread):
    """Keeps the agent running on the target and hands what it says to ``put``.

    Args:
        access: how the target is reached and what is followed.
        gpu_every_s: seconds between two looks at the GPUs.
        put: takes the events; must not block.
        mode: ``follow``, or ``once`` for one look.
    """

    def __init__(
        self, access: Access, gpu_every_s: float, put: Callable[[Event], None], *, mode: str = "follow"
    ) -> None:
        super().__init__(name="watch-target", daemon=True)
        self._access = access
        self._gpu_every_s = gpu_every_s
        self._put = put
        self._mode = mode
        self._stopped = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End the connection and with it the agent."""
        self._stopped.set()
        if self._child is not None and self._child.stdin is not None:
            with contextlib.suppress(OSError):
                self._child.stdin.close()
            self._child.terminate()

    def run(self) -> None:
        """Connect again and again until stopped; once in mode ``once``."""
        try:
            words = command(self._access, self._gpu_every_s, self._mode)
        except ValueError as error:
            self._put(TargetNote("connection", str(error)))
            return
        tries = 0
        while not self._stopped.is_set():
            heard, reason = self._connect(words)
            if self._mode == "once" or self._stopped.is_set():
                if not heard:
                    self._put(TargetNote("connection", reason))
                return
            tries = 0 if heard else tries + 1
            self._put(TargetNote("connection", f"the connection to {self._where} ended: {reason}; trying again"))
            self._stopped.wait(RETRY_S[min(tries, len(RETRY_S) - 1)])

    @property
    def _where(self) -> str:
        return self._access.address or "this machine"

    def _connect(self, words: list[str]) -> tuple[bool, str]:
        """Run the agent to its end; return whether it said anything and how it ended."""
        try:
            child = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            return False, f"{words[0]} cannot be started ({error.strerror})"
        self._child = child
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None  # noqa: PT018, S101
        heard = False
        with child:
            with contextlib.suppress(OSError):
                # The pipe stays open: its end tells the agent to go.
                child.stdin.write(SOURCE)
                child.stdin.flush()
            for event in read_events(child.stdout):
                if not heard:
                    heard = True
                    self._put(TargetNote("connection", ""))
                self._put(event)
            said = child.stderr.read().decode("utf-8", "replace").strip().splitlines()
            with contextlib.suppress(OSError):
                child.stdin.close()
        return heard, said[-1] if said else f"exit code {child.returncode}"


def read_events(lines: IO[bytes]) -> Iterator[Event]:
    """Yield what the agent says; lines that are none of its words (a login banner) are left out."""
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if not isinstance(said, dict):
            continue
        if "text" in said:
            yield LogGrew(str(said["text"]), bool(said.get("fresh")))
            yield TargetNote("log", "")
        elif "gpu" in said:
            gpus = parse_gpus(str(said["gpu"]))
            yield GpusSeen(gpus) if gpus else TargetNote("gpu", f"nvidia-smi said {str(said['gpu'])[:200]!r}")
        elif "gpu_error" in said:
            yield TargetNote("gpu", f"the GPUs are not known: {said['gpu_error']}")
        elif "log_error" in said:
            yield TargetNote("log", f"the log cannot be read: {said['log_error']}")


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs in an answer of nvidia-smi (fields: ``agent.QUERY``); lines of another shape are left out."""
    found = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 5 and words[0].isdigit():
            used, total, power, temperature = (_number(word) for word in words[1:])
            found.append(Gpu(int(words[0]), used, total, power, temperature))
    return tuple(found)


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
