#!/usr/bin/python3
"""A process that holds simulated GPU memory, as stubborn as wanted. Every machine of the lab has it as ``hold-gpu``.

It stands for what is not a server in order: a scheduler whose launcher is gone, another tenant's job, a process that
ignores SIGTERM. Prints ``holding`` when every process of it holds its memory.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, "/opt/sglang-simulator")

from sglang.gpu_memory import GpuMemory  # type: ignore[import-not-found]
from sglang.process_title import set_process_title  # type: ignore[import-not-found]

NODE = Path("/etc/sglang-simulator/node.json")


def hold(gpus: list[int], mib: int, *, ignore_term: bool) -> list[GpuMemory]:
    """Hold ``mib`` MiB of each GPU and return what keeps it held."""
    if ignore_term:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    node = json.loads(NODE.read_text())
    held = [GpuMemory(Path(node["gpu_dir"]), gpu, int(node["gpus"][gpu]["memory_total_mib"])) for gpu in gpus]
    for memory in held:
        memory.hold(mib)
    return held


def fork_holder(options: argparse.Namespace, gpus: list[int], generations: int) -> None:
    """Fork a process that holds memory, which forks the next generation; return in the caller when all of them hold."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        return
    os.close(reading)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # whoever waits for the end of our output waits for the parent only
        os.dup2(nothing, stream)
    set_process_title(options.title)
    held = hold(gpus, options.mib, ignore_term=options.ignore_term)
    if generations > 1:
        fork_holder(options, gpus, generations - 1)
    os.write(writing, b".")
    os.close(writing)
    while held:
        signal.pause()


def main() -> None:
    """Hold memory as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", default="0,1,2,3,4,5,6,7", help="indices (default: %(default)s)")
    parser.add_argument(
        "--mib", type=int, default=9500, help="MiB on each GPU, for each process (default: %(default)s)"
    )
    parser.add_argument("--title", default="sglang::scheduler_TP0", help="what ps shows (default: %(default)s)")
    parser.add_argument(
        "--generations", type=int, default=1, help="how deep the tree of processes is (default: %(default)s)"
    )
    parser.add_argument("--ignore-term", action="store_true", help="survive SIGTERM, SIGINT and SIGHUP")
    parser.add_argument("--orphan", action="store_true", help="end the parent, so that the holders belong to process 1")
    options = parser.parse_args()
    gpus = [int(gpu) for gpu in options.gpus.split(",")]
    if os.getpgrp() != os.getpid():
        os.setsid()
    fork_holder(options, gpus, options.generations)
    sys.stdout.write("holding\n")
    sys.stdout.flush()
    if not options.orphan:
        signal.pause()


if __name__ == "__main__":
    main()
