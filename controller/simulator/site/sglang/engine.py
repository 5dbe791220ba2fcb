"""The launcher's side of its children (srt/entrypoints/engine.py, srt/utils/watchdog.py, 0.5.15)."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from .peers import ranks_of_a_node
from .process_tree import kill_process_tree
from .scheduler import run_detokenizer, run_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from .log import Log
    from .node import Node


def local_ranks(fields: dict[str, Any]) -> range:
    """Return the tensor-parallel ranks of this node (``_calculate_rank_ranges`` without pipeline parallelism)."""
    count = ranks_of_a_node(fields)
    return range(count * fields["node_rank"], count * (fields["node_rank"] + 1))


class Engine:
    """Schedulers and detokenizer of one server.

    They are started by multiprocessing's *spawn*, as the real ones: fresh interpreters which run ``site`` again, in the
    session and process group of the launcher.
    """

    def __init__(self, fields: dict[str, Any], node: Node, log: Log) -> None:
        self._fields = fields
        self._node = node
        self._log = log
        self.launch = node.next_launch()
        self.processes: list[SpawnProcess] = []
        self.names: list[str] = []
        self._connections: list[Connection] = []
        self._stop_watching = threading.Event()

    @property
    def connection(self) -> Connection:
        """Pipe to rank 0, which decodes."""
        return self._connections[0]

    def start(self) -> list[dict[str, Any]]:
        """Start all children and wait until every scheduler is ready.

        Returns:
            What each rank says about itself.

        Raises:
            RuntimeError: a scheduler died; the text is the real one.
        """
        signal.signal(signal.SIGQUIT, self._failed_while_loading)
        context = multiprocessing.get_context("spawn")
        node_file, launcher = str(self._node.root / "node.json"), os.getpid()
        for index, rank in enumerate(local_ranks(self._fields)):
            ours, theirs = context.Pipe()
            arguments = (self._fields, node_file, launcher, self.launch, rank, theirs)
            self._add(f"scheduler_{index}", context.Process(target=run_scheduler, args=arguments), ours, theirs)
        schedulers = list(self._connections)
        if self._fields["node_rank"] == 0:
            ours, theirs = context.Pipe()
            process = context.Process(target=run_detokenizer, args=(node_file, launcher, theirs))
            self._add("detokenizer", process, ours, theirs)
        for rank in range(len(self._connections)):
            self._receive(rank)
        time.sleep(self._node.loading(float(self._node.phases.get("imports_s", 0.0))))
        for connection in schedulers:
            connection.send("go")
        return [self._receive(rank) for rank in range(len(schedulers))]

    def _add(self, name: str, process: SpawnProcess, ours: Connection, theirs: Connection) -> None:
        process.start()
        # Our copy of the child's end must go, or a dead child would never show as the end of the pipe.
        theirs.close()
        self.names.append(name)
        self.processes.append(process)
        self._connections.append(ours)

    def _receive(self, rank: int) -> dict[str, Any]:
        connection = self._connections[rank]
        while not connection.poll(self._node.loading(5.0, at_least=0.05)):
            for index, process in enumerate(self.processes):
                if not process.is_alive():
                    raise self._died(index)
        try:
            message: dict[str, Any] = connection.recv()
        except (EOFError, ConnectionResetError):
            raise self._died(rank) from None
        return message

    def _died(self, rank: int) -> RuntimeError:
        process = self.processes[rank]
        process.join(timeout=10)
        return RuntimeError(
            f"Rank {rank} scheduler died during initialization (exit code: {process.exitcode}). "
            "If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
        )

    def _failed_while_loading(self, number: int, frame: object) -> None:
        del number, frame
        self._log("Received sigquit from a child process. It usually means the child failed.")
        kill_process_tree(self._log)

    def wait_for_schedulers(self) -> None:
        """Wait for the end of every scheduler, one after the other: no watchdog looks at them here."""
        for process in self.processes:
            process.join()
            self._log(f"Scheduler or DataParallelController {process.pid} terminated with {process.exitcode}")

    def watch(self) -> None:
        """Send this process SIGQUIT as soon as a child has crashed (``SubprocessWatchdog``, every second)."""
        threading.Thread(target=self._watch, daemon=True, name="subprocess-watchdog").start()

    def stop_watching(self) -> None:
        """End the watch: from now on children may end."""
        self._stop_watching.set()

    def _watch(self) -> None:
        while not self._stop_watching.wait(self._node.loading(1.0, at_least=0.05)):
            for index, process in enumerate(self.processes):
                if process.is_alive() or process.exitcode == 0:
                    continue
                self._log(
                    f"Subprocess {self.names[index]} (pid={process.pid}) crashed with exit code {process.exitcode}. "
                    "Triggering SIGQUIT for cleanup..."
                )
                os.kill(os.getpid(), signal.SIGQUIT)
                return

    def crash(self) -> None:
        """End the server after a child failed while serving (``running_phase_sigquit_handler``)."""
        self._log("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        self.stop_watching()
        self._log("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
        # The real handler blocks the event loop here too: the launcher outlives its scheduler and answers nothing.
        time.sleep(self._node.loading(5.0))
        if not any(process.is_alive() for process in self.processes[:-1]):
            self._log("No live scheduler processes found; skipping py-spy and CUDA coredump.")
        kill_process_tree(self._log)

    def shut_down(self, wait: Callable[[float], None] = time.sleep) -> None:
        """Ask the schedulers to end, wait for them, then kill the whole tree, this process included."""
        self.stop_watching()
        for connection in self._connections:
            try:
                connection.send({"kind": "shutdown"})
            except OSError:
                continue
        deadline = time.monotonic() + self._node.shutdown(15.0, at_least=0.5)
        while time.monotonic() < deadline and any(process.is_alive() for process in self.processes):
            wait(0.02)
        kill_process_tree(self._log)
