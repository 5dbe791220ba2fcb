"""Read processes from /proc. Everything that vanishes while being read is left out: it is gone, which is an answer."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import (
    DEAD_STATES,
    NamespaceIds,
    ProcessFacts,
    ThreadFacts,
    parse_cgroup,
    parse_kill_pending,
    parse_namespace_ids,
    parse_stat,
    parse_thread_state,
    title_of,
)

DEVICE = re.compile(r"^/dev/(nvidia\d+|nvidiactl|nvidia-uvm)$")
"""Devices that a CUDA process opens. nvidia-modeset and nvidia-caps never carry compute memory."""


class ProcessTable:
    """The processes of one /proc.

    Args:
        root: where procfs is mounted; tests give a directory that looks like one.
    """

    def __init__(self, root: str = "/proc") -> None:
        self.root = root

    def scan(self, details_for: Callable[[ProcessFacts], bool]) -> Dict[int, ProcessFacts]:
        """One pass over all processes except kernel threads.

        Args:
            details_for: says for which processes title and namespaces are read as well. Device holders always get
            them: reading
                them for the thousands of other processes of a big host would triple the cost of the pass.
        """
        found = {}
        for pid in self._pids():
            process = self.read(pid)
            if process is None or process.kernel_thread:
                continue
            process = replace(process, cgroup=self._cgroup(pid), devices=self._devices(process))
            if process.devices or details_for(process):
                process = self.with_details(process)
            found[pid] = process
        return found

    def read(self, pid: int) -> Optional[ProcessFacts]:
        """The identity and state of one process; None when it does not exist."""
        text = self._text(f"{pid}/stat")
        if not text:
            return None
        process = parse_stat(text)
        if process.state in DEAD_STATES:
            # A leader that has exited is a zombie while other threads live on, and those may hold GPU memory.
            process = replace(process, live_thread=any(t.state not in DEAD_STATES for t in self.threads(pid)))
        return process

    def start_ticks(self, pid: int) -> Optional[int]:
        """When the process started, in clock ticks since boot; None when it does not exist."""
        process = self.read(pid)
        return None if process is None else process.start_ticks

    def is_alive(self, pid: int, start_ticks: int) -> bool:
        """Whether this very process still runs a thread. A zombie without one counts as gone."""
        process = self.read(pid)
        return process is not None and process.start_ticks == start_ticks and process.live_thread

    def with_details(self, process: ProcessFacts) -> ProcessFacts:
        """A copy with title, PID namespace and namespace numbers."""
        argv = self._text(f"{process.pid}/cmdline").split("\0")
        status = self._text(f"{process.pid}/status")
        ids = parse_namespace_ids(status) if status else NamespaceIds((), ())
        namespace = self._link(f"{process.pid}/ns/pid") or ""
        return replace(process, title=title_of(argv)).with_namespace(namespace, ids)

    def threads(self, pid: int) -> List[ThreadFacts]:
        """All threads of a process (the leader included) with what each one waits for."""
        threads = []
        for tid in self._numbers(f"{pid}/task"):
            status = self._text(f"{pid}/task/{tid}/status")
            if status:
                wait_channel = self._text(f"{pid}/task/{tid}/wchan").strip()
                wait_channel = "" if wait_channel == "0" else wait_channel
                threads.append(ThreadFacts(tid, parse_thread_state(status), wait_channel, parse_kill_pending(status)))
        return threads

    def mapped_devices(self, pid: int) -> Tuple[str, ...]:
        """GPU devices that a process has mapped (they may stay mapped after their descriptors were closed)."""
        paths = {line.split(None, 5)[5] for line in self._text(f"{pid}/maps").splitlines() if "/dev/nvidia" in line}
        return tuple(sorted(path for path in paths if DEVICE.match(path)))

    def device_minors(self) -> Dict[str, int]:
        """PCI bus id -> minor number N of /dev/nvidiaN, as the driver lists them; empty where it does not."""
        minors = {}
        for bus_id in self._names("driver/nvidia/gpus"):
            for line in self._text(f"driver/nvidia/gpus/{bus_id}/information").splitlines():
                key, _, value = line.partition(":")
                if key.strip() == "Device Minor" and value.strip().isdigit():
                    minors[bus_id.lower()] = int(value)
        return minors

    def boot_id(self, of_init: Optional[int] = None) -> str:
        """The boot id that processes see: the kernel's, or that of the container whose init is ``of_init``.

        LXC gives each container start its own boot id (conf.c, lxc_setup_boot_id), so the host's would not match.
        """
        inside = f"{of_init}/root/proc/" if of_init is not None else ""
        return self._text(f"{inside}sys/kernel/random/boot_id").strip()

    def container_device_minors(self, init_pid: int) -> List[int]:
        """Minor numbers of the /dev/nvidiaN nodes that the container of this init has."""
        names = self._names(f"{init_pid}/root/dev")
        return sorted(int(name[6:]) for name in names if re.match(r"^nvidia\d+$", name))

    def _pids(self) -> List[int]:
        return self._numbers(".")

    def _cgroup(self, pid: int) -> str:
        return parse_cgroup(self._text(f"{pid}/cgroup"))

    def _devices(self, process: ProcessFacts) -> Tuple[str, ...]:
        pid = process.pid
        # The descriptors of a zombie leader are gone from its own entry; living threads still list them.
        places = [f"{pid}/fd"] if process.state not in DEAD_STATES else self._thread_descriptors(process)
        found = set()
        for place in places:
            for number in self._names(place):
                target = self._link(f"{place}/{number}")
                if target is not None and target.startswith("/dev/nvidia") and DEVICE.match(target):
                    found.add(target)
        return tuple(sorted(found))

    def _thread_descriptors(self, process: ProcessFacts) -> List[str]:
        if not process.live_thread:
            return []
        return [f"{process.pid}/task/{tid}/fd" for tid in self._numbers(f"{process.pid}/task")]

    def _numbers(self, path: str) -> List[int]:
        return sorted(int(name) for name in self._names(path) if name.isdigit())

    def _names(self, path: str) -> Iterator[str]:
        try:
            yield from os.listdir(f"{self.root}/{path}")  # noqa: PTH208 - pathlib costs three times as much, once per process
        except OSError:
            return

    def _link(self, path: str) -> Optional[str]:
        try:
            return os.readlink(f"{self.root}/{path}")  # noqa: PTH115 - as above
        except OSError:
            return None

    def _text(self, path: str) -> str:
        try:
            with open(f"{self.root}/{path}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
                return file.read()
        except OSError:
            return ""
