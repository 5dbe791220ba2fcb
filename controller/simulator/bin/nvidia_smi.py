"""Simulated nvidia-smi: reports the locked files of ``gpu_dir`` as GPU memory, by the PID that owns the lock.

Files in ``gpu_dir``: ``gpuN/*.alloc`` count while somebody holds a POSIX lock on them, ``gpuN/*.leak`` always (memory
that no process owns). ``fail`` makes the driver unreachable, ``hang`` makes it never answer. The owner's PID comes from
``F_GETLK``, which the kernel translates into the caller's PID namespace: an owner that is not visible counts in
memory.used and is left out of the process list, as with NVIDIA's open kernel module.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import sys
import time

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without the time to import typing
if TYPE_CHECKING:
    from typing import Any

MIB = 1 << 20
FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux
UNITS = {
    "memory.total": "MiB",
    "memory.used": "MiB",
    "memory.free": "MiB",
    "memory.reserved": "MiB",
    "used_memory": "MiB",
    "used_gpu_memory": "MiB",
    "utilization.gpu": "%",
    "utilization.memory": "%",
    "power.draw": "W",
    "power.limit": "W",
    "clocks.sm": "MHz",
    "clocks.mem": "MHz",
    "clocks.current.sm": "MHz",
    "clocks.max.sm": "MHz",
}
ALIASES = {
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "gpu_name": "name",
    "clocks.current.sm": "clocks.sm",
    "clocks_event_reasons.active": "clocks_throttle_reasons.active",
}
APP_FIELDS = ("timestamp", "gpu_name", "gpu_bus_id", "gpu_serial", "gpu_uuid", "pid", "process_name", "used_memory")
BROKEN_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n"
)
INVALID = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"


def say(text: str) -> None:
    """Write to standard output."""
    sys.stdout.write(text)


def node_settings() -> tuple[dict[str, Any], str]:
    """Return node.json and the GPU directory of the node this program was copied into, else of the system-wide one."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - pathlib doubles the start-up
    path = f"{root}/node.json"
    if not os.path.exists(path):  # noqa: PTH110
        path = "/etc/sglang-simulator/node.json"
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        settings = json.load(file)
    return settings, settings.get("gpu_dir") or f"{os.path.dirname(path)}/gpu"  # noqa: PTH120


def lock_owner(path: str) -> int | None:
    """Return the PID that locks a file (0: not visible from here), None when nobody does."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
    finally:
        os.close(descriptor)
    kind, _, _, _, pid = struct.unpack(FLOCK, answer)
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def process_name(pid: int) -> str:
    """Return what nvidia-smi shows for a process: the first word of its command line."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read().split("\0")[0] or "[Not Found]"
    except OSError:
        return "[Not Found]"


def read_gpu(gpu: dict[str, Any], gpu_dir: str, driver: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the values of one GPU and its processes, by field name."""
    used, applications = 0, []
    folder = f"{gpu_dir}/gpu{gpu['index']}"
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        names = []
    identity = {"uuid": gpu["uuid"], "name": gpu["name"], "pci.bus_id": gpu["pci_bus_id"], "index": gpu["index"]}
    for name in names:
        path = f"{folder}/{name}"
        owner = lock_owner(path) if name.endswith(".alloc") else None
        if owner is None and not name.endswith(".leak"):
            continue
        try:
            size = os.stat(path).st_size // MIB  # noqa: PTH116
        except OSError:
            continue
        used += size
        if owner:
            applications.append(
                {
                    **identity,
                    "pid": owner,
                    "process_name": process_name(owner),
                    "used_memory": size,
                    "gpu_serial": "[N/A]",
                }
            )
    total = int(gpu["memory_total_mib"])
    active = used > 0
    return {
        **identity,
        "count": None,
        "serial": "[N/A]",
        "driver_version": driver,
        "memory.total": total,
        "memory.used": used,
        "memory.free": total - used,
        "memory.reserved": 0,
        "utilization.gpu": 0,
        "utilization.memory": 0,
        "temperature.gpu": 46 if active else 34,
        "power.draw": "87.40" if active else "14.85",
        "power.limit": "600.00",
        "clocks.sm": 2430 if active else 180,
        "clocks.mem": 13365 if active else 405,
        "clocks.max.sm": 3090,
        "clocks_throttle_reasons.active": "0x0000000000000000" if active else "0x0000000000000001",
        "pstate": "P1" if active else "P8",
        "compute_mode": "Default",
        "persistence_mode": "Enabled",
        "ecc.errors.uncorrected.volatile.total": 0,
        "mig.mode.current": "[N/A]",
        "pcie.link.gen.current": 5,
        "pcie.link.width.current": 16,
    }, applications


def table(gpus: list[dict[str, Any]], applications: list[dict[str, Any]], driver: str) -> str:
    """Return a short form of the table that nvidia-smi shows without arguments."""
    rule = f"+{'-' * 89}+\n"
    lines = [
        rule,
        f"| NVIDIA-SMI {driver} (simulated)   Driver Version: {driver}   CUDA Version: 13.0".ljust(90) + "|\n",
        rule,
    ]
    for gpu in gpus:
        usage = f"{gpu['memory.used']}MiB / {gpu['memory.total']}MiB"
        lines.append(f"| {gpu['index']:>3}  {gpu['name']:<42} {gpu['pci.bus_id']} {usage:>22}".ljust(90) + "|\n")
    lines += [rule, "| Processes:".ljust(90) + "|\n"]
    rows = [f"| {a['index']:>3} {a['pid']:>10} C {a['process_name']:<40} {a['used_memory']}MiB" for a in applications]
    lines += [row.ljust(90) + "|\n" for row in rows or ["|  No running processes found"]]
    return "".join([*lines, rule])


def query(kind: str, fields: list[str], form: list[str], rows: list[dict[str, Any]]) -> int:
    """Print rows as CSV and return the exit status."""
    known = APP_FIELDS if kind == "--query-compute-apps" else None
    for field in fields:
        name = ALIASES.get(field, field)
        valid = (
            field in (*known, "used_gpu_memory")
            if known
            else (name in rows[0] or name == "timestamp" if rows else True)
        )
        if not valid:
            say(f'Field "{field}" is not a valid field to query.\n\n')
            return 2
    if "noheader" not in form:
        heads = [f"{field} [{UNITS[field]}]" if field in UNITS else field for field in fields]
        say(", ".join(heads) + "\n")
    now = time.strftime("%Y/%m/%d %H:%M:%S.000")
    for row in rows:
        cells = []
        for field in fields:
            name = "used_memory" if field == "used_gpu_memory" else ALIASES.get(field, field)
            unit = f" {UNITS[field]}" if field in UNITS and "nounits" not in form else ""
            cells.append(f"{now if name == 'timestamp' else row[name]}{unit}")
        say(", ".join(cells) + "\n")
    return 0


def parse(arguments: list[str]) -> tuple[str, list[str], list[str], list[str]] | None:
    """Return query kind, fields, format words and selected GPUs; None when the arguments make no sense."""
    kind, fields, form, selected = "", [], [], []
    rest = list(arguments)
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        if option in ("-i", "--id", "--format") and not equals:
            if not rest:
                return None
            value = rest.pop(0)
        if option in ("--query-gpu", "--query-compute-apps") and value:
            kind, fields = option, [field.strip() for field in value.split(",")]
        elif option == "--format":
            form = [word.strip() for word in value.split(",")]
        elif option in ("-i", "--id"):
            selected = value.split(",")
        elif option in ("-L", "--list-gpus"):
            kind = "-L"
        else:
            return None
    return kind, fields, form, selected


def main(arguments: list[str]) -> int:  # noqa: PLR0911 - one return for each form of call and each refusal
    """Run as nvidia-smi and return its exit status."""
    settings, gpu_dir = node_settings()
    while os.path.exists(f"{gpu_dir}/hang"):  # noqa: PTH110
        time.sleep(0.2)
    if os.path.exists(f"{gpu_dir}/fail"):  # noqa: PTH110
        say(BROKEN_DRIVER)
        return 9
    parsed = parse(arguments)
    if parsed is None:
        say(INVALID)
        return 1
    kind, fields, form, selected = parsed
    if kind.startswith("--query") and "csv" not in form:
        say("\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n")
        return 1
    driver = settings.get("driver_version", "580.95.05")
    gpus, applications = [], []
    for gpu in settings["gpus"]:
        if selected and not {str(gpu["index"]), gpu["uuid"], gpu["pci_bus_id"]} & set(selected):
            continue
        values, processes = read_gpu(gpu, gpu_dir, driver)
        gpus.append(values)
        applications += processes
    for values in gpus:
        values["count"] = len(gpus)
    if not gpus:
        say("No devices were found\n")
        return 6
    if kind == "-L":
        say("".join(f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})\n" for gpu in gpus))
        return 0
    if not kind:
        say(table(gpus, applications, driver))
        return 0
    return query(kind, fields, form, gpus if kind == "--query-gpu" else applications)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
