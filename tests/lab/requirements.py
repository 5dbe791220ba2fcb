"""Whether this machine can run the lab, and what is missing when it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.lab.errors import LabUnavailableError

PROGRAMS = {
    "lxc-start": "lxc",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}


def cgroup2_mount() -> Path | None:
    """Where the unified cgroup hierarchy is mounted (alone, or beside version 1 as ``unified``)."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    return None


def why_unavailable() -> str | None:
    """The first thing that keeps the lab from running here, as a sentence; None when it can run."""
    if os.geteuid() != 0:
        return "the lab needs root, for LXC containers and network namespaces: run it as root"
    return _missing_program() or _missing_kernel_feature()


def _missing_program() -> str | None:
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"the lab needs {program}, which is not installed: apt-get install {package}"
    return None


def _missing_kernel_feature() -> str | None:
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        return "the lab needs overlayfs, which this kernel does not offer: modprobe overlay"
    cgroup = cgroup2_mount()
    if cgroup is None:
        return "the lab needs a cgroup2 mount: mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified"
    if not os.access(cgroup, os.W_OK):
        return f"the lab needs to make cgroups, and {cgroup} is read-only: run it outside an unprivileged container"
    probe = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--net", "--uts", "--ipc", "--cgroup", "true"],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    if probe.returncode:
        return f"the lab needs namespaces of its own and may not make them: {probe.stderr.strip()}"
    return None


def require() -> None:
    """Return when the lab can run here.

    Raises:
        LabUnavailableError: it cannot; the message says why.
    """
    reason = why_unavailable()
    if reason is not None:
        raise LabUnavailableError(reason)
