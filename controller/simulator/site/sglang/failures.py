"""Exceptions of the real stack and the texts with which a phase fails on demand."""

from __future__ import annotations


class OutOfMemoryError(RuntimeError):
    """A GPU has less free memory than is asked for."""


class DistBackendError(RuntimeError):
    """NCCL failed."""


class SafetensorError(Exception):
    """A weight file cannot be read."""


# Tracebacks show the names that users of the real libraries see.
OutOfMemoryError.__module__ = "torch"
DistBackendError.__module__ = "torch.distributed"
SafetensorError.__module__ = "safetensors_rust"

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
