"""Command line of the lab: ``tests/lab/lab up | down | status | inventory | ssh | run``.

Exit statuses: those of the command for ``run`` and ``ssh``; 0 done; 1 the lab failed; 2 bad usage; 3 ``status`` found
no lab; 77 this machine cannot run the lab (the reason is printed).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time

from tests.lab import daemon
from tests.lab.access import inventory_script_output
from tests.lab.errors import LabError, LabUnavailableError
from tests.lab.holding import held_lab
from tests.lab.layout import DEFAULT_NAME, Paths
from tests.lab.running import RunningLab
from tests.lab.topology import BY_HOSTS

EXIT_FAILED = 1
EXIT_NOT_RUNNING = 3
EXIT_UNAVAILABLE = 77


def main(arguments: list[str] | None = None) -> int:
    """Run the subcommand and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.action(options)
    except LabUnavailableError as error:
        sys.stderr.write(f"lab: {error}\n")
        return EXIT_UNAVAILABLE
    except LabError as error:
        sys.stderr.write(f"lab: {error}\n")
        return EXIT_FAILED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab", description="Throw-away Proxmox hosts with 8 GPUs each, and containers on them."
    )
    name_help = "which lab, when several run (default: $LAB_NAME or %(default)s)"
    parser.add_argument("--name", default=os.environ.get("LAB_NAME", DEFAULT_NAME), help=name_help)
    actions = parser.add_subparsers(required=True, metavar="up|down|status|inventory|ssh|run")
    hosts = argparse.ArgumentParser(add_help=False)
    hosts_help = "Proxmox hosts of a lab that is started: 1 has container 129; 2 have 129, and 231 beside 232"
    hosts.add_argument("--hosts", type=int, choices=sorted(BY_HOSTS), default=1, help=hosts_help)
    up_help = "start the lab in the background; does nothing when it runs"
    actions.add_parser("up", help=up_help, parents=[hosts]).set_defaults(action=up)
    for name, action, text in (
        ("down", down, "stop the lab and remove all of it"),
        ("status", status, "say whether it runs; exit 3 when not"),
        ("inventory", inventory, "print the inventory as an Ansible inventory script does; empty when it does not run"),
    ):
        actions.add_parser(name, help=text).set_defaults(action=action)
    ssh_parser = actions.add_parser("ssh", help="log in to, or run a command on, a host (`pve`) or a container (`129`)")
    ssh_parser.add_argument("machine", nargs="?", default="129")
    ssh_parser.add_argument("command", nargs=argparse.REMAINDER)
    ssh_parser.set_defaults(action=ssh)
    run_help = "run a command in the lab's network; starts a lab for it when none runs"
    run_parser = actions.add_parser("run", help=run_help, parents=[hosts])
    run_parser.add_argument("command", nargs=argparse.REMAINDER)
    run_parser.set_defaults(action=run)
    return parser


def up(options: argparse.Namespace) -> int:
    """Start the lab in the background."""
    began = time.monotonic()
    if daemon.is_running(options.name):
        sys.stdout.write(f"lab {options.name!r} is running already\n")
    else:
        daemon.start(options.name, options.hosts)
        sys.stdout.write(f"lab {options.name!r} is up ({time.monotonic() - began:.1f} s)\n")
    sys.stdout.write(f"inventory: {Paths(options.name).inventory}\n")
    return 0


def down(options: argparse.Namespace) -> int:
    """Stop the lab."""
    daemon.stop(options.name)
    sys.stdout.write(f"lab {options.name!r} is down\n")
    return 0


def status(options: argparse.Namespace) -> int:
    """Say whether the lab runs, and what is in it."""
    if not daemon.is_running(options.name):
        sys.stdout.write(f"lab {options.name!r} is not running\n")
        return EXIT_NOT_RUNNING
    lab = RunningLab(options.name)
    sys.stdout.write(
        f"lab {options.name!r} is running\ninventory: {lab.paths.inventory}\n"
        + "".join(f"{host.name}:\n{lab.pve('pct', 'list', host=host.name).stdout}" for host in lab.topology.hosts)
    )
    return 0


def inventory(options: argparse.Namespace) -> int:
    """Print the machines of the lab for Ansible."""
    machines = inventory_script_output(Paths(options.name)) if daemon.is_running(options.name) else {}
    sys.stdout.write(json.dumps(machines, indent=2) + "\n")
    return 0


def ssh(options: argparse.Namespace) -> int:
    """Log in to a machine of the lab, or run a command there."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    return subprocess.run(RunningLab(options.name).ssh_command(options.machine, *command), check=False).returncode


def run(options: argparse.Namespace) -> int:
    """Run a command of this machine in the lab's network."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise LabError("nothing to run: write `lab run -- COMMAND`")
    if daemon.is_running(options.name):
        return _run_in(RunningLab(options.name), command)
    # SystemExit unwinds the `with` block: a terminated run takes its lab down in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with held_lab(options.name, BY_HOSTS[options.hosts]) as lab:
        return _run_in(lab, command)


def _run_in(lab: RunningLab, command: list[str]) -> int:
    environment = {**os.environ, "LAB_HELD": "1", "LAB_NAME": lab.name, "LAB_INVENTORY": str(lab.paths.inventory)}
    with subprocess.Popen(lab.enter_network(*command), env=environment) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            return process.wait()  # the command got the interrupt too; let it end in its own way
        finally:
            if process.poll() is None:
                process.terminate()
