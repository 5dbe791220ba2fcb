"""The process of one host: does what the coordinator says, and dies with it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from controller.exits import ControllerError, TargetError
from controller.fleet.ports import BlockEnded, DoBlock, Ended, Leave, Left, Lost, Opened, Refused, Said
from controller.journal import Journal
from controller.sweep.files import JOURNAL
from controller.sweep.interrupt import SIGNALS, Interrupts
from controller.sweep.ports import SilentWatcher

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from controller.fleet.ports import FromHost, HostRunner, MakeRunner, ToHost
    from controller.launch_progress import LaunchProgress
    from controller.plan import Cell

POLL_S = 0.2
ORPHANED = 137
"""Exit status of a process whose coordinator was killed: as if it had been killed too."""


def work(connection: Connection, directory: Path, host: str, make: MakeRunner) -> None:
    """Serve one host until the coordinator says that it is enough. The entry point of the process.

    Ctrl-C of a terminal must not reach it: the coordinator passes a signal on. When the coordinator is killed, this
    process ends at once and touches nothing more, as a killed controller does; the next run cleans up.
    """
    os.setsid()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    interrupts = Interrupts(lambda: f"the process of {host} quits at once; its server may still run")
    try:
        with interrupts, Journal(directory / JOURNAL, fields={"host": host}) as journal:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            _serve(connection, interrupts, make(journal, interrupts, RemoteWatcher(connection)))
    except ControllerError as error:
        _say(connection, Refused(error.exit_code, f"{host}: {error.sentence}"))
    except Exception as error:  # noqa: BLE001 - one host must not end the others
        traceback.print_exc(file=sys.stderr)
        _say(connection, Lost(f"this is a fault of the controller ({type(error).__name__}: {error})"))


def _serve(connection: Connection, interrupts: Interrupts, runner: HostRunner) -> None:
    trouble = ""
    try:
        try:
            _say(connection, Opened(runner.open()))
        except TargetError as error:
            _say(connection, Lost(error.sentence))
        while isinstance(order := _next_order(connection, interrupts), DoBlock):
            _do(connection, order, runner)
    finally:
        trouble = runner.close()
    _say(connection, Left(trouble))


def _do(connection: Connection, order: DoBlock, runner: HostRunner) -> None:
    """Launch the cells of a block and report each."""
    fatal, ended = "", 0
    for end in runner.launch(order.cells):
        _say(connection, Ended(end))
        ended += end.state in ("done", "failed") and not end.fatal
        fatal = end.sentence if end.fatal else ""
    if fatal:
        _say(connection, Lost(fatal))
    else:
        _say(connection, BlockEnded(order.block, whole=ended == len(order.cells)))


def _next_order(connection: Connection, interrupts: Interrupts) -> ToHost:
    """Wait for the coordinator's word; a signal says the same as an order to leave."""
    while not connection.poll(POLL_S):
        if interrupts.asked:
            return Leave()
    order: ToHost = connection.recv()
    return Leave() if interrupts.asked else order


def _say(connection: Connection, message: FromHost) -> None:
    try:
        connection.send(message)
    except (BrokenPipeError, OSError):
        os._exit(ORPHANED)


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(ORPHANED)


class RemoteWatcher(SilentWatcher):
    """Passes what a host's watcher is told on to the coordinator; the speed so far is not worth a message."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def cell_started(self, cell: Cell, position: int, total: int, attempt: int) -> None:
        """Pass on."""
        _say(self._connection, Said("cell_started", (cell, position, total, attempt)))

    def progress(self, progress: LaunchProgress) -> None:
        """Pass on."""
        _say(self._connection, Said("progress", (progress,)))

    def phase(self, name: str) -> None:
        """Pass on."""
        _say(self._connection, Said("phase", (name,)))

    def measuring(self, text: str) -> None:
        """Pass on."""
        _say(self._connection, Said("measuring", (text,)))

    def cell_ended(self, cell: Cell, state: str, text: str, seconds: float) -> None:
        """Pass on."""
        _say(self._connection, Said("cell_ended", (cell, state, text, seconds)))

    def note(self, text: str) -> None:
        """Pass on."""
        _say(self._connection, Said("note", (text,)))
