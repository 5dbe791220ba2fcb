"""Exceptions of the real stack and the texts with which a phase fails on demand."""

from __future__ import annotations

import traceback
from pathlib import Path


class OutOfMemoryError(RuntimeError):
    """A GPU has less free memory than is asked for."""


class DistBackendError(RuntimeError):
    """NCCL failed."""


class SafetensorError(Exception):
    """A weight file cannot be read."""


class LogitsBufferError(AssertionError):
    """The graphs of an adaptive candidate need more rows of logits than the first steps made room for.

    SGLang 0.5.15 to 0.5.18: the buffer is as large as the first steps need it (model_executor/graph_shared_output.py).

    Args:
        held: rows of the buffer.
        needed: rows that the graph wants.
        vocabulary: the draft's vocabulary.

    Attributes:
        frames: file, line, function and text of SGLang's own frames, the outermost first.
    """

    frames = (
        ("managers/scheduler.py", 4313, "run_scheduler_process", "scheduler = Scheduler("),
        ("managers/scheduler.py", 423, "__init__", "self.init_model_worker()"),
        ("managers/scheduler.py", 874, "init_model_worker", "self.init_all_cuda_graphs()"),
        ("managers/scheduler.py", 862, "init_all_cuda_graphs", "self.draft_worker.init_cuda_graphs()"),
        ("speculative/eagle_worker_v2.py", 1152, "init_cuda_graphs", "self.adaptive_controller.init_states("),
        (
            "speculative/adaptive_runtime_state.py",
            103,
            "init_states",
            "state = self.worker.build_adaptive_runtime_state(",
        ),
        (
            "speculative/eagle_worker_v2.py",
            1383,
            "build_adaptive_runtime_state",
            "self._draft_worker._capture_cuda_graphs()",
        ),
        (
            "speculative/eagle_worker_v2.py",
            491,
            "_capture_cuda_graphs",
            "self.cuda_graph_runner_for_draft_extend = Device2ExtendCudaGraphRunner[",
        ),
        (
            "speculative/eagle_draft_extend_cuda_graph_runner.py",
            229,
            "__init__",
            "self.model_runner.graph_shared_output.get_logits_buffer(",
        ),
        ("model_executor/graph_shared_output.py", 56, "get_logits_buffer", "assert rows <= self.max_rows, ("),
    )

    def __init__(self, held: int, needed: int, vocabulary: int) -> None:
        super().__init__(f"shared logits buffer holds {held} rows but caller needs {needed} (vocab_size={vocabulary})")


# Tracebacks show the names that users of the real libraries see.
OutOfMemoryError.__module__ = "torch"
DistBackendError.__module__ = "torch.distributed"
SafetensorError.__module__ = "safetensors_rust"
LogitsBufferError.__module__, LogitsBufferError.__qualname__ = "builtins", "AssertionError"

_CAPTURE_HINT = """\
Capture cuda graph failed: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 95.59 GiB \
of which 312.00 MiB is free.
Possible solutions:
1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)
2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)
3. disable torch compile by not using --enable-torch-compile
4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)
Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose
"""

_CRASHES: dict[str, Exception] = {
    "starting": ImportError("libnvrtc.so.13: cannot open shared object file: No such file or directory"),
    "distributed_init": DistBackendError(
        "NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error (run with NCCL_DEBUG=INFO for details), "
        "NCCL version 2.27.7\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or "
        "device error."
    ),
    "weights": SafetensorError("Error while deserializing header: incomplete metadata, file not fully covered"),
    "draft_weights": AssertionError(
        "Attempted to load weight (torch.Size([7168, 21504])) into parameter (torch.Size([7168, 14336]))"
    ),
    "memory_pool": RuntimeError("Not enough memory. Please try to increase --mem-fraction-static."),
    "target_graphs": Exception(_CAPTURE_HINT),
    "draft_graphs": Exception(_CAPTURE_HINT),
    "warmup": RuntimeError("CUDA error: an illegal memory access was encountered"),
    "serving": RuntimeError("CUDA error: an illegal memory access was encountered"),
}


def raise_crash(phase: str) -> None:
    """Raise what typically ends this phase."""
    raise _CRASHES[phase]


def traceback_of(error: BaseException) -> str:
    """Return a traceback as the scheduler logs it: with SGLang's own frames where they are known, else with ours."""
    frames: tuple[tuple[str, int, str, str], ...] = getattr(error, "frames", ())
    if not frames:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__))
    root = Path(__file__).parent / "srt"
    # One text: a summary would be looked up in files that do not exist here.
    shown = [f'  File "{root / file}", line {line}, in {name}\n    {text}\n' for file, line, name, text in frames]
    return "".join(
        ["Traceback (most recent call last):\n", *shown, *traceback.format_exception_only(type(error), error)]
    )
