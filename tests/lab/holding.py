"""Holding a lab: it lives as long as the process that started it, however that process ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tests.lab import access, base_root, keeper, layers, topology
from tests.lab.errors import LabError
from tests.lab.layout import REPOSITORY, Paths
from tests.lab.processes import ProcessIdentity
from tests.lab.requirements import require
from tests.lab.running import POLL_S, RunningLab

if TYPE_CHECKING:
    from collections.abc import Iterator

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0


@contextmanager
def held_lab(name: str, machines: topology.Topology = topology.ONE_HOST) -> Iterator[RunningLab]:
    """A lab for the time of a ``with`` block. The base root is built first when it is missing.

    Args:
        name: tells labs apart.
        machines: which machines it has.

    Raises:
        LabUnavailableError: this machine cannot run it.
        LabError: it did not start, or a lab of this name already runs.
    """
    require()
    base = base_root.ensure()
    paths = Paths(name)
    sweep(paths)
    _claim(paths, machines)
    with paths.log.open("w+b") as log:
        process = _start_keeper(paths, str(base), log.fileno())
        try:
            lab = _wait_for_start(paths, process)
            yield lab
        except LabError as error:
            log.seek(0)
            tail = log.read().decode(errors="replace").strip()
            raise LabError(f"{error}\n{tail}" if tail else str(error)) from error
        finally:
            _stop_keeper(paths, process)


def sweep(paths: Paths) -> None:
    """Remove what a lab left whose holder and keeper have both been killed; leave one that lives alone."""
    if not paths.state.exists():
        return
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while paths.state.exists() and time.monotonic() < deadline:
        holder, keeping, init = (ProcessIdentity.read(path) for path in (paths.holder, paths.keeper, paths.init))
        if holder is not None and holder.alive():
            return
        if not any(process is not None and process.alive() for process in (keeping, init)):
            keeper.clean_up(paths)
            return
        time.sleep(POLL_S)  # the keeper is at it


def _claim(paths: Paths, machines: topology.Topology) -> None:
    paths.state.parent.mkdir(parents=True, exist_ok=True)
    try:
        paths.state.mkdir(mode=0o700)
    except FileExistsError:
        raise LabError(
            f"a lab {paths.name!r} is already running: use it, stop it with `tests/lab/lab down`, or name another"
        ) from None
    topology.write(paths, machines)
    ProcessIdentity.of(os.getpid()).write(paths.holder)


def _start_keeper(paths: Paths, base: str, log: int) -> subprocess.Popen[bytes]:
    try:
        layers.build(paths)
        access.make_keys(paths)
    except BaseException:
        keeper.clean_up(paths)
        raise
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lab.keeper", paths.name, base],
        stdin=subprocess.PIPE,  # the lifetime pipe: nobody but this process has the other end
        stdout=log,
        stderr=log,
        cwd=REPOSITORY,
        start_new_session=True,  # an interrupt from the terminal is for the holder, who then stops the lab in order
    )


def _wait_for_start(paths: Paths, process: subprocess.Popen[bytes]) -> RunningLab:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (paths.state / "ready").exists():
        if process.poll() is not None:
            raise LabError(f"the lab {paths.name!r} ended while it started (exit {process.returncode})")
        if time.monotonic() > deadline:
            raise LabError(f"the lab {paths.name!r} did not start within {START_TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)
    lab = RunningLab(paths.name)
    access.write_client_files(paths, lab.init.pid)
    for host in lab.topology.hosts:
        lab.wait_until(partial(lab.host_booted, host.name), f"{host.name} to boot")
    for container in lab.topology.serving:
        lab.start_container(container.vmid)
    (paths.state / "booted").touch()
    return lab


def _stop_keeper(paths: Paths, process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # Normally the keeper has done it. Never touch a later lab of the same name.
    if ProcessIdentity.read(paths.holder) == ProcessIdentity.of(os.getpid()):
        keeper.clean_up(paths)
