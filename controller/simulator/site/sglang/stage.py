"""What every phase of a start does with time, GPU memory and the faults of its node."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from .collective import Collective
from .failures import OutOfMemoryError, raise_crash

if TYPE_CHECKING:
    from .gpu_memory import GpuMemory
    from .node import Node

GIB = 1024.0  # MiB


class Stage:
    """Time and memory of one rank while it starts.

    Args:
        node: the simulated machine.
        rank: tensor-parallel rank among all nodes.
        local_rank: the same among the ranks of this node.
        memory: this rank's GPU.
    """

    def __init__(self, node: Node, rank: int, local_rank: int, memory: GpuMemory) -> None:
        self._node = node
        self._rank = rank
        self._local_rank = local_rank
        self._memory = memory
        self._collective = Collective(os.getppid())
        self._deadline = time.monotonic()

    def begin(self) -> None:
        """Start the clock of the start."""
        self._deadline = time.monotonic()

    def enter(self, phase: str) -> None:
        """Begin a phase, which hangs or crashes when the node's faults say so."""
        faults = self._node.faults
        if faults.hang_phase == phase:
            while True:
                signal.pause()
        if faults.crash_phase == phase and faults.crash_rank == self._rank:
            raise_crash(phase)

    def spend(self, seconds: float) -> None:
        """Let so many seconds of the real machine pass, on every rank together."""
        # Against a schedule, so that the time spent on work does not add up over the phases.
        self._deadline = max(self._deadline + self._node.loading(seconds), time.monotonic() - 1.0)
        time.sleep(max(self._deadline - time.monotonic(), 0.0))
        self._collective.wait()

    def seconds_of(self, name: str) -> float:
        """Return how long a part of the start takes on the real machine, 0 when nobody says."""
        return float(self._node.phases.get(name, 0.0))

    def free_mib(self) -> float:
        """Return the free memory of this rank's GPU."""
        return float(self._memory.free_mib())

    def hold(self, more_mib: float) -> None:
        """Take so much more of the GPU's memory.

        Raises:
            OutOfMemoryError: there is not so much.
        """
        free = self.free_mib()
        if more_mib > free:
            total, held = self._memory.total_mib / GIB, self._memory.held_mib / GIB
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {more_mib / GIB:.2f} GiB. GPU {self._local_rank} has a total "
                f"capacity of {total:.2f} GiB of which {free / GIB:.2f} GiB is free. Including non-PyTorch memory, "
                f"this process has {held:.2f} GiB memory in use."
            )
        self._memory.hold(self._memory.held_mib + more_mib)
