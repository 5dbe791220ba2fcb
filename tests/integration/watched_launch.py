"""A launch of a few lines that behave like SGLang, watched by the health module in this process: for faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_files import LaunchFiles
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_manager import ProcessManager
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.modules.sglang_health import ARGUMENTS, observe
from ansible_collections.sglang_ops.eagle3.plugins.modules.sglang_process import apply

from tests.unit.plugins.fake_server import free_port, parameters

if TYPE_CHECKING:
    from pathlib import Path


class WatchedLaunch:
    """One launch in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.manager = ProcessManager(LaunchFiles(str(folder / "state")))
        self.log = folder / "logs" / "server.log"

    def start(self, mode: str) -> dict[str, Any]:
        with self.manager.files.lock(1.0):
            launch: dict[str, Any] = apply(parameters(self.folder, self.port, mode), self.manager, check_mode=False)[
                "launch"
            ]
        return launch

    def stop(self) -> None:
        apply({**parameters(self.folder, self.port), "state": "stopped"}, self.manager, check_mode=False)

    def look(self, **changes: Any) -> tuple[dict[str, Any], list[str]]:
        """Watch for one slice; return the result and the warnings."""
        options = {name: argument.get("default") for name, argument in ARGUMENTS.items()}
        given = {
            "manager": "process",
            "state_dir": str(self.folder / "state"),
            "log_file": str(self.log),
            "port": self.port,
            "url": f"http://127.0.0.1:{self.port}",
            "slice_s": 2.0,
            "budget_s": 120.0,
            "nvidia_smi": "",
        }
        return observe({**options, **given, **changes}, ProcessTable(), check_mode=False)
