#!/usr/bin/python3
"""Stand-in for Proxmox's pct over real LXC containers: the subcommands, texts and exit statuses that the roles rely on.

Supported: list, status [--verbose], config, start, stop, shutdown, exec, rollback ID fresh (an empty disk again).
The cgroup layout, ``--keep-env``, PATH and messages are those of pve-container's ``PVE/CLI/pct.pm`` and ``PVE/LXC.pm``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIGURATIONS = Path("/etc/pve/lxc")
BASE = Path("/lab/base")
LAYERS = Path("/lab/layers")
CONTAINERS = Path("/var/lib/lxc")
DISKS = Path("/var/lib/vz")

LXC_CONFIGURATION = """\
lxc.cgroup.relative = 0
lxc.cgroup.dir.monitor = lxc.monitor/{vmid}
lxc.cgroup.dir.container = lxc/{vmid}
lxc.cgroup.dir.container.inner = ns
lxc.uts.name = {hostname}
lxc.rootfs.path = dir:{rootfs}
lxc.apparmor.profile = unconfined
lxc.mount.auto = proc:mixed sys:mixed cgroup:mixed
lxc.init.cmd = /sbin/init
lxc.tty.max = 0
lxc.pty.max = 256
lxc.net.0.type = veth
lxc.net.0.link = {bridge}
lxc.net.0.flags = up
lxc.net.0.name = {name}
lxc.net.0.hwaddr = {hwaddr}
lxc.net.0.veth.pair = veth{vmid}i0
lxc.net.0.ipv4.address = {ip}
"""


def die(message: str) -> NoReturn:
    """End as perl's die does."""
    sys.stderr.write(f"{message}\n")
    raise SystemExit(255)


def configuration(vmid: str) -> list[tuple[str, str]]:
    """Key and value of each line of a container's configuration file."""
    path = CONFIGURATIONS / f"{vmid}.conf"
    if not path.exists():
        die(f"Configuration file 'nodes/{os.uname().nodename}/lxc/{vmid}.conf' does not exist")
    pairs = (line.partition(":") for line in path.read_text().splitlines() if line)
    return [(key, value.strip()) for key, _, value in pairs]


def running(vmid: str) -> bool:
    """Whether the container runs: Proxmox looks for the same socket."""
    return f"@{CONTAINERS}/{vmid}/command\n" in Path("/proc/net/unix").read_text()


def mount_disk(vmid: str) -> Path:
    """Mount the container's disk, which keeps what was written until a rollback."""
    rootfs, upper, work = CONTAINERS / vmid / "rootfs", DISKS / vmid / "upper", DISKS / vmid / "work"
    for directory in (rootfs, upper, work):
        directory.mkdir(parents=True, exist_ok=True)
    if not rootfs.is_mount():
        lower = f"{LAYERS / vmid}:{BASE}"
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(rootfs)], check=True)
    return rootfs


def start(vmid: str) -> NoReturn:
    """Write the LXC configuration as PVE::LXC does, and start the container."""
    settings = configuration(vmid)
    if running(vmid):
        die(f"CT {vmid} already running")
    values = dict(settings)
    network = dict(part.split("=", 1) for part in values["net0"].split(","))
    rootfs = mount_disk(vmid)
    (rootfs / "etc/hostname").write_text(values["hostname"] + "\n")
    text = LXC_CONFIGURATION.format(vmid=vmid, hostname=values["hostname"], rootfs=rootfs, **network)
    text += "".join(f"{key} = {value}\n" for key, value in settings if key.startswith("lxc."))
    (CONTAINERS / vmid / "config").write_text(text)
    logs = [
        "--logpriority",
        "INFO",
        "--logfile",
        f"/var/log/lxc-{vmid}.log",
        "--console-log",
        f"/var/log/lxc-{vmid}.console",
    ]
    os.execvp("lxc-start", ["lxc-start", "--name", vmid, *logs])  # noqa: S606


def require_running(vmid: str) -> None:
    """Die unless the container exists and runs."""
    configuration(vmid)
    if not running(vmid):
        die(f"CT {vmid} not running")


def show_list() -> None:
    """One line a container; nothing at all without containers."""
    rows = [(path.stem, dict(configuration(path.stem))) for path in sorted(CONFIGURATIONS.glob("*.conf"))]
    if rows:
        sys.stdout.write(f"{'VMID':<10} {'Status':<10} {'Lock':<12} {'Name':<20}\n")
    for vmid, values in rows:
        state = "running" if running(vmid) else "stopped"
        sys.stdout.write(f"{vmid:<10} {state:<10} {values.get('lock', ''):<12} {values['hostname']:<20}\n")


def show_status(vmid: str, *options: str) -> None:
    """Exit status 0 whether the container runs or not, as in Proxmox."""
    configuration(vmid)
    state = "running" if running(vmid) else "stopped"
    sys.stdout.write(f"status: {state}\n")
    if "--verbose" in options and state == "running":
        pid = subprocess.run(
            ["lxc-info", "-n", vmid, "-p", "-H"], capture_output=True, text=True, check=True
        ).stdout.strip()
        sys.stdout.write(f"pid: {pid}\n")


def execute(vmid: str, *arguments: str) -> NoReturn:
    """Run a command in the container; the exit status is the command's own."""
    rest = list(arguments)
    environment = "--keep-env"
    while rest and rest[0].startswith("--"):
        option = rest.pop(0)
        if option == "--":
            break
        if option == "--keep-env" and rest.pop(0) == "0":
            environment = "--clear-env"
    configuration(vmid)
    if not running(vmid):
        die(f"container '{vmid}' not running!")
    os.execvp("lxc-attach", ["lxc-attach", "--name", vmid, environment, "--", *rest])  # noqa: S606


def stop(vmid: str) -> NoReturn:
    """Kill every process of the container."""
    require_running(vmid)
    os.execvp("lxc-stop", ["lxc-stop", "--name", vmid, "--kill"])  # noqa: S606


def shutdown(vmid: str, *options: str) -> NoReturn:
    """Ask the container's init to end; ``--timeout`` in seconds."""
    require_running(vmid)
    timeout = options[options.index("--timeout") + 1] if "--timeout" in options else "60"
    os.execvp("lxc-stop", ["lxc-stop", "--name", vmid, "--nokill", "--timeout", timeout])  # noqa: S606


def rollback(vmid: str, snapshot: str) -> None:
    """Make the disk what it was before the first start."""
    configuration(vmid)
    if snapshot != "fresh":
        die(f"snapshot '{snapshot}' does not exist")
    if running(vmid):
        subprocess.run(["lxc-stop", "--name", vmid, "--kill"], check=True)
    rootfs = CONTAINERS / vmid / "rootfs"
    if rootfs.is_mount():
        subprocess.run(["umount", "--lazy", str(rootfs)], check=True)
    shutil.rmtree(DISKS / vmid, ignore_errors=True)


COMMANDS: dict[str, Callable[..., object]] = {
    "config": lambda vmid: sys.stdout.write((CONFIGURATIONS / f"{vmid}.conf").read_text()),
    "exec": execute,
    "list": show_list,
    "rollback": rollback,
    "shutdown": shutdown,
    "start": start,
    "status": show_status,
    "stop": stop,
}


def main() -> None:
    """Run the subcommand on the command line."""
    os.environ["PATH"] = "/sbin:/bin:/usr/sbin:/usr/bin"  # as Proxmox's command line does
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in COMMANDS:
        die(f"ERROR: unknown command 'pct {name}'")
    COMMANDS[name](*sys.argv[2:])


if __name__ == "__main__":
    main()
