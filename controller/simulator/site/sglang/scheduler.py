"""One scheduler process (srt/managers/scheduler.py, ``run_scheduler_process``) and the detokenizer beside it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .decoding import DecodeLoop
from .failures import traceback_of
from .gpu_memory import GpuMemory
from .log import Log
from .node import Node
from .peers import ranks_of_a_node
from .process_title import die_with_parent, set_process_title
from .startup import Startup

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def _become(title: str, launcher: int, orphan: bool) -> None:
    set_process_title(title)
    if orphan:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return
    die_with_parent(signal.SIGKILL)
    # A launcher that died while this process was still importing sends no signal any more.
    if os.getppid() != launcher:
        os.kill(os.getpid(), signal.SIGKILL)


def _gpu(node: Node, index: int) -> dict[str, Any]:
    if index >= len(node.gpus):
        raise RuntimeError("CUDA error: invalid device ordinal")
    return node.gpus[index]


def run_scheduler(  # noqa: PLR0917 - arguments of a process travel as a tuple
    fields: dict[str, Any], node_file: str, launcher: int, launch: int, rank: int, connection: Connection
) -> None:
    """Load, serve and, on an exception, take the launcher down with SIGQUIT as the real scheduler does."""
    node = Node.load(Path(node_file))
    title = f"sglang::scheduler_TP{rank}" if fields["tp_size"] > 1 else "sglang::scheduler"
    _become(title, launcher, node.faults.orphans)
    log = Log(rank if fields["tp_size"] > 1 else None)
    try:
        gpu = _gpu(node, fields["base_gpu_id"] + rank % ranks_of_a_node(fields))
        memory = GpuMemory(node.gpu_dir, gpu["index"], gpu["memory_total_mib"])
        startup = Startup(fields, node, rank, memory, log)
        connection.send({"status": "started"})
        connection.recv()
        info = startup.run()
        connection.send(info)
        if rank == 0:
            DecodeLoop(fields, node, launch=launch, info=info, connection=connection, log=log).run()
        else:
            connection.recv()
        # The GPU's memory is held until the process has taken its CUDA context down.
        time.sleep(node.shutdown(float(node.phases.get("teardown_s", 0.0))))
        startup.peers.leave()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        while node.faults.orphans:
            signal.pause()
    except Exception as error:  # noqa: BLE001 - whatever it is, the launcher has to know
        log(f"Scheduler hit an exception: {traceback_of(error)}")
        os.kill(launcher, signal.SIGQUIT)
        # The real process now tears CUDA down, which takes longer than the launcher needs to kill it.
        signal.pause()


def run_detokenizer(node_file: str, launcher: int, connection: Connection) -> None:
    """Stand in for the detokenizer: the process exists and can be killed, the launcher makes the text."""
    node = Node.load(Path(node_file))
    _become("sglang::detokenizer", launcher, node.faults.orphans)
    connection.send({"status": "started"})
    try:
        connection.recv()
    except EOFError:
        while node.faults.orphans:
            signal.pause()
