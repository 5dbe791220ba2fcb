"""Where a launch stood when it failed: what its start-up messages say, made sharper by the traceback (pure)."""

from __future__ import annotations

import re
from typing import Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import NO_PHASE
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import PHASES, PhaseTracker

# Frames and source lines of SGLang (srt/managers/scheduler.py, srt/model_executor/model_runner.py, 0.4.9-0.5.23).
_DRAFT = re.compile(
    r"(?:maybe_init_draft_worker|DraftWorkerClass|EAGLEWorker\(|EagleDraftWorker\(|self\.draft_worker = )"
)
_FRAMES = (
    (
        re.compile(r"event_loop_\w+|in run_batch|forward_batch_(?:speculative_)?generation|in process_batch_result"),
        "serving",
    ),
    (re.compile(r"_execute_server_warmup|_wait_and_warmup"), "warmup"),
    (
        re.compile(
            r"init_cuda_graphs|init_device_graphs|capture_one_batch_size|CudaGraphRunner\(|cuda_graph_runner\.py"
        ),
        "target_graphs",
    ),
    (re.compile(r"in init_memory_pool|init_kv_cache|profile_max_num_token|kv_cache_mixin\.py"), "memory_pool"),
    (re.compile(r"self\.load_model\(\)|in load_model\b|in load_weights\b|model_loader/"), "weights"),
    (
        re.compile(r"init_torch_distributed|init_distributed_environment|initialize_model_parallel|init_process_group"),
        "distributed_init",
    ),
)
# Messages that tell the phase without being its begin; what a log that starts late has to offer.
_MESSAGES = (
    (
        re.compile(
            r"Decode batch[.,] #running-req|KV cache pool is full|Scheduler debug info|atchdog timeout \(self\."
            r"|Input length \(\d+"
        ),
        "serving",
    ),
    (re.compile(r"Initialization failed\. warmup error"), "warmup"),
    (
        re.compile(
            r"Capturing (?:batches \(|(?:the model for )?CUDA graphs)|Registering \d+ cuda graph addresses"
            r"|[Cc]apture cuda graph bs"
        ),
        "target_graphs",
    ),
    (re.compile(r"max_total_tokens=\d+ is larger than the profiled value"), "memory_pool"),
    (
        re.compile(
            r"Loading safetensors checkpoint shards|Multi-thread loading shards|Loading model from \d+ safetensors"
            r"|could finish the model loading"
        ),
        "weights",
    ),
    (re.compile(r"NCCL (?:INFO|WARN|version)"), "distributed_init"),
)
_PREFILL = re.compile(r"Prefill batch[.,] #new-seq")


class PhaseFinder:
    """Follows messages and the frames of the present traceback."""

    def __init__(self) -> None:
        self._tracker = PhaseTracker(0.0, speculative=True)
        self._told: Optional[str] = None
        self._draft = False
        self._frame: Optional[str] = None
        self.seen = False

    def message(self, text: str, rank: str) -> None:
        """Take one message into account."""
        self._tracker.advance(text, rank)
        for pattern, phase in _MESSAGES:
            if pattern.search(text) and (self._told is None or _order(phase) > _order(self._told)):
                self._told = phase
        if _PREFILL.search(text) and self._tracker.phase == PHASES[0]:
            # The warm-up fills too, but a log that shows nothing before is one of a server that serves.
            self._told = "serving"

    def frame(self, text: str) -> None:
        """Take one line of a traceback into account."""
        if _DRAFT.search(text):
            self._draft = True
        for pattern, phase in _FRAMES:
            if pattern.search(text):
                # A model loads, allocates and captures inside of the loop's frames never: the outermost is decisive.
                if self._frame != "serving":
                    self._frame = phase
                break

    def new_traceback(self) -> None:
        """Forget the frames of the traceback before."""
        self._draft = False
        self._frame = None

    @property
    def reached(self) -> str:
        """The furthest phase that the messages tell of."""
        phase = self._tracker.phase
        if self._told is not None and _order(self._told) > _order(phase):
            phase = self._told
        return NO_PHASE if phase == PHASES[0] and not self.seen else phase

    @property
    def phase(self) -> str:
        """Where the launch stands: the phase reached, or what the present traceback says."""
        if self._frame == "serving":
            return "serving"
        if self._draft:
            return "draft_graphs" if self._frame == "target_graphs" else "draft_weights"
        reached = self.reached
        if self._frame is not None and _order(self._frame) > _order(reached):
            return self._frame
        return reached


def is_before(phase: str, other: str) -> bool:
    """Say whether a launch reaches one phase before the other; an unknown phase is before every other."""
    return _order(phase) < _order(other)


def _order(phase: str) -> int:
    return PHASES.index(phase) if phase in PHASES else -1
