"""Simulated pct: one container, whose processes are plain processes of this machine.

Texts and exit codes follow Proxmox VE's pct (pve-container, ``PVE/CLI/pct.pm``): ``exec`` passes the command's own
status through, the tool's own failures are 255. The state is read from ``NODE/state/container`` (``running`` when it is
missing).
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without the time to import typing
if TYPE_CHECKING:
    from typing import Any

CONTAINER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOST_PATH = "/sbin:/bin:/usr/sbin:/usr/bin"  # what Proxmox's command line sets before it does anything
USAGE = "USAGE: pct <COMMAND> [ARGS] [OPTIONS]\n       pct help [<COMMAND>] [OPTIONS]\n"


def fail(text: str) -> int:
    """Report an error of the tool itself."""
    sys.stderr.write(text + "\n")
    return 255


def read_node() -> dict[str, Any]:
    """Return node.json of the node this program was copied into, with the path of its state directory."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - pathlib doubles the start-up
    with open(f"{root}/node.json", encoding="utf-8") as file:  # noqa: PTH123
        settings: dict[str, Any] = json.load(file)
    settings.setdefault("state_dir", f"{root}/state")
    return settings


def container_state(settings: dict[str, Any]) -> str:
    """Return ``running`` or ``stopped``."""
    try:
        with open(f"{settings['state_dir']}/container", encoding="utf-8") as file:  # noqa: PTH123
            return file.read().strip() or "running"
    except OSError:
        return "running"


def execute(settings: dict[str, Any], vmid: str, arguments: list[str]) -> int:
    """Become the command (``pct exec``)."""
    keep_environment = True
    while arguments and arguments[0] != "--" and arguments[0].lstrip("-").startswith("keep-env"):
        _, equals, value = arguments.pop(0).partition("=")
        if not equals:
            value = arguments.pop(0) if arguments and arguments[0] in ("0", "1") else "1"
        keep_environment = value != "0"
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments:
        return fail("missing command")
    if container_state(settings) != "running":
        return fail(f"container '{vmid}' not running!")
    environment = {**os.environ, "PATH": HOST_PATH} if keep_environment else {"PATH": CONTAINER_PATH}
    environment["container"] = "lxc"
    os.chdir("/")
    try:
        os.execvpe(arguments[0], arguments, environment)  # noqa: S606 - becoming the command is what exec means
    except OSError as error:
        sys.stderr.write(
            f"lxc-attach: {vmid}: ../src/lxc/attach.c: lxc_attach_run_command: 1841 {error.strerror} - "
            f'Failed to exec "{arguments[0]}"\n'
        )
        return 127 if isinstance(error, FileNotFoundError) else 126


def main(arguments: list[str]) -> int:  # noqa: PLR0911 - one return for each command and each refusal
    """Run as pct and return its exit status."""
    if not arguments:
        sys.stderr.write(f"ERROR: no command specified\n{USAGE}")
        return 255
    command, *rest = arguments
    settings = read_node()
    own = str(settings.get("container_id", 129))
    if command == "list":
        sys.stdout.write(f"{'VMID':<10} {'Status':<10} {'Lock':<12} {'Name':<20}\n")
        sys.stdout.write(f"{own:<10} {container_state(settings):<10} {'':<12} {'inference':<20}\n")
        return 0
    if command not in ("status", "config", "exec"):
        sys.stderr.write(f"ERROR: unknown command 'pct {command}'\n{USAGE}")
        return 255
    if not rest:
        sys.stderr.write(f"400 not enough arguments\npct {command} <vmid>\n")
        return 255
    vmid = rest.pop(0)
    if vmid != own:
        return fail(f"Configuration file 'nodes/pve/lxc/{vmid}.conf' does not exist")
    if command == "exec":
        return execute(settings, vmid, rest)
    if command == "status":
        sys.stdout.write(f"status: {container_state(settings)}\n")
        if rest and rest[0].lstrip("-").startswith("v"):
            sys.stdout.write(f"name: inference\ntype: lxc\nvmid: {vmid}\n")
        return 0
    lines = [
        "arch: amd64",
        "cores: 64",
        "features: nesting=1",
        "hostname: inference",
        "memory: 524288",
        "ostype: debian",
    ]
    lines += [f"dev{gpu['index']}: /dev/nvidia{gpu['index']}" for gpu in settings["gpus"]]
    sys.stdout.write("\n".join([*lines, "unprivileged: 0", ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
