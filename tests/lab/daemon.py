"""``lab up`` and ``lab down``: a background process that does nothing but hold a lab."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

from tests.lab.errors import LabError, LabUnavailableError
from tests.lab.holding import STOP_TIMEOUT_S, held_lab, sweep
from tests.lab.layout import REPOSITORY, Paths
from tests.lab.processes import ProcessIdentity
from tests.lab.requirements import require
from tests.lab.running import POLL_S
from tests.lab.topology import BY_HOSTS

READY = "ready"


def is_running(name: str) -> bool:
    """Whether a lab of this name is up, with all of its machines booted."""
    paths = Paths(name)
    holder, init = ProcessIdentity.read(paths.holder), ProcessIdentity.read(paths.init)
    if holder is None or init is None or not (paths.state / "booted").exists():
        return False
    return holder.alive() and init.alive()


def start(name: str, hosts: int = 1) -> None:
    """Start a lab of one or two Proxmox hosts and return when it is up.

    Raises:
        LabUnavailableError: this machine cannot run it.
        LabError: it did not start.
    """
    require()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.lab.daemon", name, str(hosts)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=REPOSITORY,
        start_new_session=True,
    )
    if process.stdout is None:  # never, with PIPE; for the type checker
        raise LabError("the holder has no output")
    answer = process.stdout.readline().strip()
    if answer != READY:
        raise LabError(answer + "\n" + process.stdout.read() if answer else f"the holder of lab {name!r} ended at once")


def stop(name: str) -> None:
    """Stop a lab, whoever holds it, and return when nothing is left of it.

    Raises:
        LabError: something of it is still there after 15 s.
    """
    paths = Paths(name)
    holder = ProcessIdentity.read(paths.holder)
    if holder is not None and holder.alive():
        os.kill(holder.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while paths.state.exists():
        if time.monotonic() > deadline:
            raise LabError(f"the lab {name!r} is still there after {STOP_TIMEOUT_S:.0f} s: look at {paths.log}")
        sweep(paths)
        time.sleep(POLL_S)


def hold(name: str, hosts: int) -> int:
    """Hold a lab until SIGTERM or its own end. Writes ``ready`` to standard output once it is up, or why it is not."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with held_lab(name, BY_HOSTS[hosts]) as lab:
            sys.stdout.write(f"{READY}\n")
            sys.stdout.flush()
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (1, 2):
                os.dup2(nothing, stream)
            _wait_for_end(lab.init.pid)
    except (LabError, LabUnavailableError) as error:
        sys.stdout.write(f"{error}\n")
        return 1
    return 0


def _wait_for_end(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    select.select([descriptor], [], [])


if __name__ == "__main__":
    raise SystemExit(hold(sys.argv[1], int(sys.argv[2])))
