"""A Proxmox container and the server's systemd unit in it, through pct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_runbooks import CONTAINER_UNREACHABLE
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_command import (
    CommandNotFoundError,
    CommandResult,
    CommandTimeoutError,
    run_bounded,
)

RUNNING_STATES = frozenset({"active", "activating", "reloading", "refreshing", "deactivating"})


@dataclass(frozen=True)
class UnitState:
    """``LoadState`` and ``ActiveState`` of a unit as systemctl shows them."""

    load: str
    active: str

    @property
    def exists(self) -> bool:
        """Whether systemd knows the unit."""
        return self.load not in {"not-found", ""}

    @property
    def failed(self) -> bool:
        """Whether the unit's last run counts as failed."""
        return self.active == "failed"

    @property
    def running(self) -> bool:
        """Whether the unit runs, or systemd is about to start it again (auto-restart is ``activating``)."""
        return self.exists and self.active in RUNNING_STATES


def full_unit_name(unit: str) -> str:
    """A unit name with its type, as it stands in cgroup paths: systemctl takes ``sglang`` for ``sglang.service``."""
    return unit if not unit or "." in unit else f"{unit}.service"


def parse_unit_state(text: str) -> UnitState:
    """Parse ``systemctl show --property=LoadState,ActiveState``."""
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return UnitState(values.get("LoadState", "").strip(), values.get("ActiveState", "").strip())


class Container:
    """One container of this node.

    Args:
        pct: path of pct.
        vmid: container number.
        timeout_s: seconds for one call that only asks.
    """

    def __init__(self, pct: str, vmid: int, timeout_s: float) -> None:
        self.pct = pct
        self.vmid = vmid
        self.timeout_s = timeout_s

    def is_running(self) -> bool:
        """Whether the container runs. Stopped is an ordinary answer.

        Raises:
            GpuError: pct is missing, hangs, or does not know the container.
        """
        result = self._call(["status", str(self.vmid)], self.timeout_s)
        status = result.stdout.strip().rpartition("status:")[2].strip().split("\n")[0]
        if result.returncode != 0 or status not in {"running", "stopped"}:
            raise GpuError(
                f"Container {self.vmid} is not a container of this node: pct says {result.words()!r}.",
                [
                    "pct list (on this node), or pvesh get /cluster/resources --type vm (anywhere in the cluster)",
                    "set the container number, or delegate to the node that has it",
                ],
                CONTAINER_UNREACHABLE,
            )
        return status == "running"

    def unit_state(self, unit: str) -> UnitState:
        """What systemd in the container says about a unit.

        Raises:
            GpuError: the container does not answer.
        """
        command = ["systemctl", "show", unit, "--property=LoadState,ActiveState"]
        result = self._execute(command, self.timeout_s)
        if result.returncode != 0:
            raise GpuError(
                f"Container {self.vmid} does not say whether {unit} runs: {result.words()}",
                [f"{self.pct} exec {self.vmid} -- systemctl status {unit}"],
                CONTAINER_UNREACHABLE,
            )
        return parse_unit_state(result.stdout)

    def stop_unit(self, unit: str, limit_s: float) -> str:
        """Stop a unit and wait for it at most ``limit_s`` seconds; return "" or why it did not stop."""
        try:
            result = self._execute(["systemctl", "stop", unit], limit_s)
        except GpuError as error:
            return error.sentence
        return (
            "" if result.returncode == 0 else f"systemctl stop {unit} failed in container {self.vmid}: {result.words()}"
        )

    def forget_failure(self, unit: str) -> str:
        """Have systemd forget that a unit failed; return "" or why it did not."""
        try:
            result = self._execute(["systemctl", "reset-failed", unit], self.timeout_s)
        except GpuError as error:
            return error.sentence
        # A unit whose file is gone is unloaded together with its failure: there is nothing left to forget.
        if result.returncode == 0 or "not loaded" in result.words():
            return ""
        return f"systemctl reset-failed {unit} failed in container {self.vmid}: {result.words()}"

    def _execute(self, command: List[str], timeout_s: float) -> CommandResult:
        # --keep-env 0: pct hands the host's whole environment into the container otherwise.
        return self._call(["exec", str(self.vmid), "--keep-env", "0", "--", *command], timeout_s)

    def _call(self, arguments: List[str], timeout_s: float) -> CommandResult:
        try:
            return run_bounded([self.pct, *arguments], timeout_s)
        except CommandNotFoundError as error:
            raise GpuError(
                f"pct cannot be started ({error}), so this is not a Proxmox host.",
                [
                    "run on the Proxmox host that has the container",
                    "use ownership=session where the server runs on this machine",
                ],
                CONTAINER_UNREACHABLE,
            ) from error
        except CommandTimeoutError as error:
            raise GpuError(
                f"{error} (pct {' '.join(arguments[:2])}).",
                ["check the container with pct status", "look for processes in state D on this host"],
                CONTAINER_UNREACHABLE,
            ) from error
