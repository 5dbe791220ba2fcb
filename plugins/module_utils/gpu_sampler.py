"""Start and end the process that samples the GPUs of one launch (see ``gpu_sampling``)."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils import gpu_sampling

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

HEALTH_FILE = "health.json"
RESULT_FILE = "gpu_samples.json"
PROCESS_FILE = "gpu_sampler.json"


class GpuSampler:
    """The sampler of one state directory: at most one process, known by its number and start time.

    Args:
        state_dir: Directory of the launch record.
        table: The processes of this machine.
    """

    def __init__(self, state_dir: str, table: ProcessTable) -> None:
        self._directory = Path(state_dir)
        self._table = table

    def start(self, nvidia_smi: str, interval_s: float) -> int:
        """Start sampling the next launch that serves; return the process id.

        Raises:
            OSError: the state directory cannot be written, or the interpreter cannot be started.
        """
        source = inspect.getsource(gpu_sampling)
        paths = [str(self._directory / name) for name in (HEALTH_FILE, RESULT_FILE)]
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-", *paths, nvidia_smi, str(interval_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            start_new_session=True,
        )
        # The program goes in by standard input: no file of it is on the target, and a process list stays readable.
        assert child.stdin is not None  # noqa: S101 - asked for above
        with child.stdin as program:
            program.write(source.encode())
        note = {"pid": child.pid, "start_ticks": self._table.start_ticks(child.pid)}
        try:
            (self._directory / PROCESS_FILE).write_text(json.dumps(note), encoding="utf-8")
        except OSError:
            child.kill()  # without a note nobody could end it
            child.wait()
            raise
        child.returncode = 0  # it is meant to outlive this process: no warning about that
        return child.pid

    def stop(self) -> Optional[Dict[str, Any]]:
        """End the sampler; return launch and summary of what it saw, None when it saw nothing."""
        note = _read(self._directory / PROCESS_FILE)
        pid, ticks = note.get("pid"), note.get("start_ticks")
        if isinstance(pid, int) and isinstance(ticks, int) and self._table.is_alive(pid, ticks):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        found = _read(self._directory / RESULT_FILE)
        for name in (PROCESS_FILE, RESULT_FILE):
            with contextlib.suppress(OSError):
                (self._directory / name).unlink()
        return found or None


def _read(path: Path) -> Dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
