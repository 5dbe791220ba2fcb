"""Ask nvidia-smi. One that fails or hangs is itself a finding and ends the cleaning: nothing is guessed."""

from __future__ import annotations

from typing import List

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_runbooks import NVIDIA_SMI_FAILS
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import (
    FORMAT,
    QUERY_COMPUTE_APPS,
    QUERY_GPUS,
    ComputeApp,
    Gpu,
    NvidiaSmiFormatError,
    lost_gpu,
    parse_compute_apps,
    parse_gpus,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_command import (
    CommandNotFoundError,
    CommandTimeoutError,
    run_bounded,
)


class NvidiaSmi:
    """nvidia-smi at a path, with a limit for each call.

    Args:
        path: program name or path.
        timeout_s: seconds for one query.
    """

    def __init__(self, path: str, timeout_s: float) -> None:
        self.path = path
        self.timeout_s = timeout_s

    def gpus(self) -> List[Gpu]:
        """All GPUs that the driver shows.

        Raises:
            GpuError: nvidia-smi is missing, fails, hangs, or shows no GPU.
        """
        text = self._ask(QUERY_GPUS)
        try:
            gpus = parse_gpus(text)
        except NvidiaSmiFormatError as error:
            raise self._unreadable(error) from error
        if not gpus:
            raise GpuError(
                f"{self.path} shows no GPU on this machine.",
                ["lspci -d 10de:", "dmesg | grep -i nvrm"],
                NVIDIA_SMI_FAILS,
            )
        return gpus

    def compute_apps(self) -> List[ComputeApp]:
        """All compute contexts that the driver shows.

        Raises:
            GpuError: nvidia-smi is missing, fails or hangs.
        """
        text = self._ask(QUERY_COMPUTE_APPS)
        try:
            return parse_compute_apps(text)
        except NvidiaSmiFormatError as error:
            raise self._unreadable(error) from error

    def _ask(self, query: str) -> str:
        try:
            result = run_bounded([self.path, query, FORMAT], self.timeout_s)
        except CommandNotFoundError as error:
            raise GpuError(
                f"nvidia-smi cannot be started ({error}).",
                ["install the NVIDIA driver's utilities on this machine or set the path of nvidia-smi"],
                NVIDIA_SMI_FAILS,
            ) from error
        except CommandTimeoutError as error:
            raise GpuError(
                f"{error}: the driver does not respond, so who holds the GPUs is unknown.",
                [
                    "ps -eo pid,stat,wchan:32,comm | grep ' D'",
                    "dmesg | grep -i xid",
                    "do not start another nvidia-smi meanwhile",
                ],
                NVIDIA_SMI_FAILS,
            ) from error
        lost = lost_gpu(result.stdout) or lost_gpu(result.stderr)
        if lost:
            raise _lost(lost, f"{self.path}, status {result.returncode}: {result.words()}")
        if result.returncode != 0:
            raise GpuError(
                f"{self.path} {query} failed with status {result.returncode}: {result.words()}",
                ["run the same command by hand on this machine", "dmesg | grep -i nvrm"],
                NVIDIA_SMI_FAILS,
            )
        return result.stdout

    def _unreadable(self, error: NvidiaSmiFormatError) -> GpuError:
        return GpuError(
            f"{self.path} answered something unexpected: {error}.",
            ["run the two queries of the module documentation by hand", "update the driver or report the line"],
            NVIDIA_SMI_FAILS,
        )


def _lost(gpu: str, words: str) -> GpuError:
    """A GPU that is lost cannot be cleaned, and who holds the others is only half known: nothing is signalled."""
    return GpuError(
        f"The driver has lost {gpu} ({words}).",
        [
            "read why on the host: journalctl -k -b | grep -E 'NVRM|Xid'",
            "end the work on the other GPUs in order, then power-cycle the host in a window",
            "do not reset a GPU while anything runs: it takes its neighbours along",
        ],
        NVIDIA_SMI_FAILS,
    )
