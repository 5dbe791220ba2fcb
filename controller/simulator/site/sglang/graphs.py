"""The CUDA graphs that a scheduler captures before it serves, in the order of SGLang 0.5.15.

With ``--speculative-adaptive`` the graphs of the other candidate steps follow those of the first ones
(srt/speculative/eagle_worker_v2.py, ``build_adaptive_runtime_state``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .adaptive import candidate_steps
from .context_length import read_config, text_config
from .failures import LogitsBufferError
from .resolution import captured_batch_sizes
from .stage import GIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from .node import Node
    from .stage import Stage

_SECOND_TIME = {"target verify": 0.5, "draft decode": 0.5}
"""Share of the first time that the same graphs take for another step count, when the kernels are there.

H200, 0.5.15: 1.3 s after 2.5 to 3.5 s of target verify, 1.0 to 1.1 s after 1.9 to 2.2 s of draft decode, 0.8 to 0.9 s
each time of draft extend (docs/evidence/2026-12-01-h200-adaptive).
"""
_NO_PREFILL_GRAPH = (
    "Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled' (e.g. via "
    "--cuda-graph-backend-prefill=disabled or auto-disable rules)."
)


class GraphCapture:
    """Captures the graphs of one rank.

    Args:
        fields: resolved ``ServerArgs``.
        node: the simulated machine.
        stage: time and memory of the start.
        max_running_requests: largest batch that can occur.
        log: this rank's log.
        first_rank_log: the same on rank 0, silent on the others.

    Attributes:
        usage_gb: GB that the target's decode graphs take; 0 without them.
    """

    def __init__(
        self,
        fields: dict[str, Any],
        node: Node,
        stage: Stage,
        max_running_requests: int,
        *,
        log: Callable[[str], None],
        first_rank_log: Callable[[str], None],
    ) -> None:
        self._fields = fields
        self._node = node
        self._stage = stage
        self._log = log
        self._first_rank_log = first_rank_log
        self._decode = fields["cuda_graph_config"]["decode"]
        self._prefill = fields["cuda_graph_config"]["prefill"]
        self._batches = captured_batch_sizes(fields, max_running_requests)
        self._captured: set[str] = set()
        self.usage_gb = 0.0

    def run(self) -> None:
        """Capture everything.

        Raises:
            OutOfMemoryError: the GPU is full.
            LogitsBufferError: an adaptive candidate needs more rows than the first steps made room for.
        """
        speculative = self._fields["speculative_algorithm"] is not None
        steps = self._fields["speculative_num_steps"]
        tokens = self._fields["speculative_num_draft_tokens"]
        self._stage.enter("target_graphs")
        self._capture_prefill("target prefill")
        before = self._stage.free_mib()
        if speculative:
            self._capture_decode("target verify", tokens, self._log)
        else:
            self._capture_decode("target decode", 1, self._log)
        self.usage_gb = round((before - self._stage.free_mib()) / GIB, 2)
        if not speculative:
            return
        self._stage.enter("draft_graphs")
        self._capture_prefill("draft prefill")
        self._capture_draft(steps, tokens)
        if self._fields["speculative_adaptive"]:
            self._build_adaptive_states(steps)

    def _build_adaptive_states(self, first: int) -> None:
        for steps in candidate_steps(self._fields["speculative_adaptive_config"]):
            if steps == first:
                continue
            before = self._stage.free_mib()
            seconds = self._capture_draft(steps, steps + 1)
            if self._decode["backend"] != "disabled":
                # Of the target's own capture the log shows the progress bar alone.
                seconds += self._work("target verify")
            used = (before - self._stage.free_mib()) / GIB
            self._first_rank_log(
                f"Built adaptive runtime state steps={steps}: elapsed={seconds:.2f}s, mem={used:.2f}GB"
            )

    def _capture_draft(self, steps: int, tokens: int) -> float:
        seconds = 0.0
        # With one step the draft's only token comes out of the extend pass: there is no decode graph to capture.
        if steps > 1:
            topk = self._fields["speculative_eagle_topk"]
            seconds += self._capture_decode("draft decode", topk, self._first_rank_log)
        rows = self._batches[-1] * tokens
        return seconds + self._capture_decode("draft extend", tokens, self._first_rank_log, rows)

    def _capture_prefill(self, name: str) -> None:
        if self._prefill["backend"] == "disabled":
            self._log(_NO_PREFILL_GRAPH)
        else:
            self._capture(name, f"backend={self._prefill['backend']}, num_tokens={self._prefill['bs']}", self._log)

    def _capture_decode(self, name: str, tokens: int, log: Callable[[str], None], rows: int = 0) -> float:
        if self._decode["backend"] == "disabled":
            return 0.0
        settings = f"backend={self._decode['backend']}, num_tokens_per_bs={tokens}, bs={self._batches}"
        return self._capture(name, settings, log, rows)

    def _capture(self, name: str, settings: str, log: Callable[[str], None], rows: int = 0) -> float:
        before = self._stage.free_mib()
        log(f"Capture {name} CUDA graph begin. {settings}, avail mem={before / GIB:.2f} GB")
        self._need_rows(rows)
        seconds = self._work(name)
        after = self._stage.free_mib()
        log(
            f"Capture {name} CUDA graph end. elapsed={seconds:.2f} s, mem usage={(before - after) / GIB:.2f} GB, "
            f"avail mem={after / GIB:.2f} GB."
        )
        return seconds

    def _work(self, name: str) -> float:
        seconds = self._stage.seconds_of(f"{name.replace(' ', '_')}_graphs_s")
        if name in self._captured:
            seconds *= _SECOND_TIME.get(name, 1.0)
        self._captured.add(name)
        self._stage.spend(seconds)
        self._stage.hold(float(self._node.memory.get("graph_mib", 0.0)))
        return seconds

    def _need_rows(self, rows: int) -> None:
        """Refuse more rows of logits than the buffer holds, which every graph shares and the first steps have sized."""
        held = self._batches[-1] * (self._fields["speculative_num_draft_tokens"] or 1)
        if rows > held:
            draft = text_config(read_config(self._fields["speculative_draft_model_path"]))
            sizes = (draft.get(key) for key in ("draft_vocab_size", "hot_vocab_size", "vocab_size"))
            raise LogitsBufferError(held, rows, next((size for size in sizes if size is not None), 0))
