"""Starting a simulated server as a real process, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from controller.simulator import Node

READY = "The server is fired up and ready to roll!"
PATIENCE_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Launch:
    """One launch; leaving the block kills whatever is left of its process group."""

    def __init__(self, node: Node, *flags: str, steps: int | None = None, tp_size: int = 2, **environment: str) -> None:
        self.node = node
        self.port = free_port()
        self.log_file: Path = node.path / "logs" / f"server-{self.port}.log"
        command = [str(node.python), "-m", "sglang.launch_server", "--model-path", str(node.target)]
        command += ["--tp-size", str(tp_size), "--mem-fraction-static", "0.88", "--port", str(self.port)]
        if steps is not None:
            command += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(node.draft)]
            command += ["--speculative-eagle-topk", "1", "--speculative-num-steps", str(steps)]
            command += ["--speculative-num-draft-tokens", str(steps + 1)]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        wait_for(lambda: not self.schedulers(), "the schedulers to be gone")

    @property
    def log(self) -> str:
        # Bytes, because reading text would turn the carriage returns of progress bars into line ends.
        return self.log_file.read_bytes().decode(errors="replace")

    def ready(self) -> Launch:
        wait_for(lambda: READY in self.log or self.process.poll() is not None, "the server to be ready")
        assert READY in self.log, self.log[-3000:]
        return self

    def ended(self) -> int:
        """Wait for the end and return the status as a shell shows it."""
        code = self.process.wait(PATIENCE_S)
        return code if code >= 0 else 128 - code

    def schedulers(self) -> list[int]:
        """PIDs of the schedulers in this launch's session, rank 0 first, zombies left out."""
        found = {}
        for process in self.node.processes():
            match = re.fullmatch(r"sglang::scheduler(?:_TP(\d+))?", process.name)
            with contextlib.suppress(OSError):
                if match and os.getsid(process.pid) == self.process.pid:
                    found[int(match.group(1) or 0)] = process.pid
        return [found[rank] for rank in sorted(found)]

    def generate(self, text: str = "Hello", tokens: int = 64, **more: Any) -> dict[str, Any]:
        sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
        response = self.client.post("/generate", json={"text": text, "sampling_params": sampling, **more})
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def stream(self, tokens: int = 64) -> list[dict[str, Any]]:
        sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
        body = {"text": "Hello", "sampling_params": sampling, "stream": True}
        with self.client.stream("POST", "/generate", json=body) as response:
            lines = [line for line in response.iter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE_S:.0f} s in vain for {what}")


def gpu_memory_used(node: Node) -> list[int]:
    """MiB used on every GPU, as the node's own nvidia-smi says."""
    command = [str(node.path / "bin" / "nvidia-smi"), "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    return [int(line) for line in output.splitlines()]
