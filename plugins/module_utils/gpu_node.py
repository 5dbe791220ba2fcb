"""Look at a node: nvidia-smi, /proc and the launch records, put together into one view. Reads only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Dict, FrozenSet, List, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_launch_files import LaunchFiles
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_launches import Launch, judge_launches
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_ownership import (
    ContainerOwnership,
    SessionOwnership,
    container_of,
    find_init,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_runbooks import CONTAINER_UNREACHABLE
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_view import Scope, View, find_holders, scope_of

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_container import Container
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_query import NvidiaSmi
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import Gpu
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable


class Node:
    """A machine with GPUs.

    Args:
        table: its processes.
        smi: its nvidia-smi.
        container: the container whose processes are ours; None when ownership goes by session.
        state_dir: where the server's launch record lies (inside the container, when there is one).
        gpu_uuids: GPUs to look at; empty for all that the container (or the node) has.
    """

    def __init__(
        self, table: ProcessTable, smi: NvidiaSmi, container: Optional[Container], state_dir: str, gpu_uuids: List[str]
    ) -> None:
        self.table = table
        self.smi = smi
        self.container = container
        self.state_dir = state_dir
        self.gpu_uuids = gpu_uuids
        self.container_running = container is not None and container.is_running()

    def look(self) -> View:
        """Take a view: two nvidia-smi queries and one pass over /proc.

        Raises:
            GpuError: something that must be known cannot be read.
        """
        all_gpus = self.smi.gpus()
        apps = self.smi.compute_apps()
        processes = self._processes({app.pid for app in apps})
        ownership, launches = self._ownership(processes)
        minors = self.table.device_minors()
        scope = self._scope(all_gpus, ownership, minors)
        holders, vanished = find_holders(scope, all_gpus, apps, processes=processes, minors=minors, ownership=ownership)
        return View(scope.gpus, processes, holders, vanished, tuple(launches), ownership)

    def launch_files(self, view: View) -> Optional[LaunchFiles]:
        """The server's launch records; None while the container is stopped (its files are not reachable)."""
        if isinstance(view.ownership, SessionOwnership):
            return LaunchFiles(self.state_dir)
        return self._files_of(view.ownership.init)

    def caller_and_ancestors(self, processes: Dict[int, ProcessFacts]) -> FrozenSet[int]:
        """The pids that lead from PID 1 to this very process."""
        pids = set()
        pid = os.getpid()
        while pid > 0 and pid not in pids:
            pids.add(pid)
            pid = processes[pid].parent if pid in processes else 0
        return frozenset(pids)

    def _processes(self, with_context: set[int]) -> Dict[int, ProcessFacts]:
        vmid = str(self.container.vmid) if self.container is not None else ""

        def details_for(process: ProcessFacts) -> bool:
            return process.pid in with_context or (vmid != "" and container_of(process) == vmid)

        return self.table.scan(details_for)

    def _ownership(
        self, processes: Dict[int, ProcessFacts]
    ) -> Tuple[ContainerOwnership | SessionOwnership, List[Launch]]:
        if self.container is None:
            records = LaunchFiles(self.state_dir).read()
            launches = judge_launches(
                records, processes, self.table.boot_id(), lambda process: process.pid, lambda process: process.session
            )
            members = frozenset(pid for launch in launches for pid in launch.members)
            return SessionOwnership(members), launches
        init = self._init(processes)
        ownership = ContainerOwnership(self.container.vmid, init)
        files = self._files_of(init)
        if init is None or files is None:
            return ownership, []
        inside = {pid: process for pid, process in processes.items() if ownership.is_ours(process)}
        launches = judge_launches(
            files.read(),
            inside,
            self.table.boot_id(of_init=init.pid),
            lambda process: process.namespace_pid,
            lambda process: process.namespace_session,
        )
        return ownership, launches

    def _init(self, processes: Dict[int, ProcessFacts]) -> Optional[ProcessFacts]:
        if self.container is None or not self.container_running:
            return None
        vmid = self.container.vmid
        init = find_init(processes.values(), vmid)
        if init is None or not init.pid_namespace:
            missing = (
                f"no init was found in the cgroup /lxc/{vmid}" if init is None else "its PID namespace cannot be read"
            )
            raise GpuError(
                f"Container {vmid} runs, but {missing}, so its processes cannot be told from others.",
                [
                    "run as root (become) on the Proxmox host itself",
                    f"lxc-info -n {vmid} -p -H; cat /proc/<that pid>/cgroup",
                ],
                CONTAINER_UNREACHABLE,
            )
        return init

    def _files_of(self, init: Optional[ProcessFacts]) -> Optional[LaunchFiles]:
        return None if init is None else LaunchFiles(self.state_dir, root=f"{self.table.root}/{init.pid}/root")

    def _scope(
        self, gpus: List[Gpu], ownership: ContainerOwnership | SessionOwnership, minors: Dict[str, int]
    ) -> Scope:
        init = ownership.init if isinstance(ownership, ContainerOwnership) else None
        visible = self.table.container_device_minors(init.pid) if init is not None else []
        try:
            return scope_of(gpus, self.gpu_uuids, visible, minors)
        except KeyError as error:
            raise GpuError(
                f"No GPU of this machine has the uuid {error.args[0]}.",
                ["nvidia-smi --query-gpu=index,uuid --format=csv shows the uuids of this machine"],
            ) from error
