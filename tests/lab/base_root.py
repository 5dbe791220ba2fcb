"""The Debian root that every machine of the lab is an overlay of: built once, cached by what it is built from."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from typing import TYPE_CHECKING

from tests.lab.errors import LabError
from tests.lab.layout import ORDINARY_UID, ORDINARY_USER, SERVING_ENVIRONMENT, cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUITE = "bookworm"
PACKAGES = (
    "dbus",
    "iproute2",
    "lxc",
    "openssh-server",
    "procps",
    "python3",
    "python3-venv",
    "sudo",
    "systemd",
    "systemd-sysv",
)
BUILD_TIMEOUT_S = 600

# Units that a container has no use for, or that would touch the machine's devices.
MASKED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.service",
    "apt-daily.timer",
    "console-getty.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "lxc-monitord.service",
    "lxc-net.service",
    "lxc.service",
    "modprobe@.service",
    "proc-sys-fs-binfmt_misc.automount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-firstboot.service",
    "systemd-logind.service",
    "systemd-machine-id-commit.service",
    "systemd-modules-load.service",
    "systemd-networkd.service",
    "systemd-pstore.service",
    "systemd-resolved.service",
    "systemd-timesyncd.service",
    "systemd-udev-trigger.service",
    "systemd-udevd.service",
    "systemd-update-utmp.service",
)

FILES = {
    "etc/ssh/sshd_config.d/lab.conf": """\
HostKey /etc/ssh/ssh_host_ed25519_key
MaxSessions 100
MaxStartups 100:30:200
PasswordAuthentication no
PermitRootLogin prohibit-password
UseDNS no
""",
    "etc/systemd/journald.conf.d/lab.conf": "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n",
    "etc/machine-id": "",
    "etc/sudoers.d/lab": f"{ORDINARY_USER} ALL=(ALL:ALL) NOPASSWD: ALL\n",
}

USERADD = ("useradd", "--create-home", "--shell=/bin/bash", f"--uid={ORDINARY_UID}", ORDINARY_USER)


def key() -> str:
    """Hash of everything the base root is made from: another list of packages, another directory."""
    ingredients = repr((SUITE, PACKAGES, MASKED_UNITS, sorted(FILES.items()), USERADD, str(SERVING_ENVIRONMENT)))
    return hashlib.sha256(ingredients.encode()).hexdigest()[:12]


def location() -> Path:
    """Where the base root of the present list of packages is, or will be."""
    return cache_directory() / f"base-{key()}"


def ensure() -> Path:
    """Return the base root, building it when it is missing (about 25 s, needs a Debian mirror or proxy).

    Raises:
        LabError: mmdebstrap failed; its last lines are in the message.
    """
    root = location()
    if root.exists():
        return root
    cache_directory().mkdir(parents=True, exist_ok=True)
    with _one_builder():
        if not root.exists():
            _build(root)
    return root


@contextmanager
def _one_builder() -> Iterator[None]:
    with (cache_directory() / "build.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield


def _build(root: Path) -> None:
    unfinished = root.with_name(f"{root.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        _run(["mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(unfinished)])
        _prepare(unfinished)
        chroot = ("chroot", str(unfinished))
        _run([*chroot, *USERADD])
        # Debian's own Python, as a user of Debian or Ubuntu would make it: its sitecustomize shadows the environment's.
        _run([*chroot, "/usr/bin/python3", "-m", "venv", "--without-pip", str(SERVING_ENVIRONMENT)])
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    unfinished.rename(root)


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=BUILD_TIMEOUT_S,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise LabError(f"building the lab's base root failed in {command[0]} (exit {done.returncode}):\n{tail}")


def _prepare(root: Path) -> None:
    units = root / "etc/systemd/system"
    for wants in ("timers.target.wants", "getty.target.wants"):
        shutil.rmtree(units / wants, ignore_errors=True)
    for unit in MASKED_UNITS:
        _link(units / unit, "/dev/null")
    _link(units / "default.target", "/lib/systemd/system/multi-user.target")
    for host_key in (root / "etc/ssh").glob("ssh_host_*"):
        host_key.unlink()  # every lab has its own
    (root / "etc/resolv.conf").unlink(missing_ok=True)
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
