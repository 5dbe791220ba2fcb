"""The process beside a lab that removes what outlives a pid namespace.

That is: empty cgroups, SSH control masters, the state directory. It starts the namespaces, passes the lifetime pipe
(its standard input) on to process 1 in them, waits for their end and cleans up. It is not the process that holds the
lab: a holder killed with SIGKILL leaves nothing behind, because the keeper still runs.

Usage: ``python3 -m tests.lab.keeper NAME BASE``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.lab import topology
from tests.lab.layout import LAB_SOURCE, Paths
from tests.lab.processes import ProcessIdentity, child_of
from tests.lab.requirements import cgroup2_mount
from tests.lab.topology import hardware_address

NAMESPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup")
UNSHARE = ("unshare", *NAMESPACES, "--propagation=private", "--fork", "--kill-child=KILL", "--")
REMOVAL_TIMEOUT_S = 5.0
POLL_S = 0.02


def cgroup_of(name: str) -> Path:
    """The lab's cgroup on the machine; the lab itself sees it as the root of the hierarchy."""
    mount = cgroup2_mount()
    if mount is None:
        raise SystemExit("no cgroup2 mount")
    return mount / f"sglang-lab-{name}"


def main() -> int:
    """Run one lab until its lifetime pipe closes, then clean up. Returns the exit status of the namespace script."""
    name, base = sys.argv[1:3]
    paths = Paths(name)
    ProcessIdentity.of(os.getpid()).write(paths.keeper)
    cgroup = cgroup_of(name)
    cgroup.mkdir(exist_ok=True)
    enter_cgroup = 'echo 0 >"$1/cgroup.procs" && shift && exec "$@"'
    hosts = [f"{host.name}={hardware_address(host.address)}" for host in topology.read(paths).hosts]
    script = ["bash", str(LAB_SOURCE / "namespace.sh"), str(paths.state), base, *hosts]
    with subprocess.Popen(
        ["sh", "-c", enter_cgroup, "sh", str(cgroup), *UNSHARE, *script], start_new_session=True
    ) as namespaces:
        os.close(sys.stdin.fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: namespaces.kill())
        _record_init(namespaces, paths)
        status = namespaces.wait()
    clean_up(paths)
    return status


def clean_up(paths: Paths) -> None:
    """Remove what is left of a lab whose namespaces have ended. Safe to repeat."""
    _end_control_masters(paths.control_sockets)
    remove_cgroup(cgroup_of(paths.name))
    shutil.rmtree(paths.state, ignore_errors=True)


def remove_cgroup(cgroup: Path) -> None:
    """Remove a tree of cgroups, waiting a moment for processes that have been killed to leave it."""
    deadline = time.monotonic() + REMOVAL_TIMEOUT_S
    while cgroup.exists() and time.monotonic() < deadline:
        for directory, _, _ in os.walk(cgroup, topdown=False):
            try:
                Path(directory).rmdir()
            except OSError:  # busy: a process in it is just dying
                time.sleep(POLL_S)
                break


def _record_init(namespaces: subprocess.Popen[bytes], paths: Paths) -> None:
    while namespaces.poll() is None:
        child = child_of(namespaces.pid)
        if child is not None:
            ProcessIdentity.of(child).write(paths.init)
            return
        time.sleep(POLL_S / 4)


def _end_control_masters(directory: Path) -> None:
    # A master keeps its connection, and the connection keeps the lab's network namespace.
    for control_socket in directory.glob("*"):
        subprocess.run(
            ["ssh", "-F", "none", "-o", f"ControlPath={control_socket}", "-O", "exit", "lab"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=REMOVAL_TIMEOUT_S,
            check=False,
        )


if __name__ == "__main__":
    raise SystemExit(main())
