"""What one scheduler does before it serves: the phases, their times, log lines and GPU memory.

Order and wording follow logs of SGLang 0.5.15: target weights, draft weights, memory pools, graphs of the target,
graphs of the draft. The draft's context length is checked after the target's weights, which is why a clash is found
late.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .adaptive import AdaptiveSteps
from .context_length import effective_context_length, read_config, text_config
from .gpu_memory import used_by_others
from .graphs import GraphCapture
from .peers import Peers, ranks_of_a_node
from .shards import progress_lines, weight_files
from .stage import GIB, Stage

if TYPE_CHECKING:
    from .gpu_memory import GpuMemory
    from .log import Log
    from .node import Node


class Startup:
    """Brings one rank up.

    Args:
        fields: resolved ``ServerArgs``.
        node: the simulated machine.
        rank: tensor-parallel rank among all nodes.
        memory: this rank's GPU.
        log: this rank's log.
    """

    def __init__(self, fields: dict[str, Any], node: Node, rank: int, memory: GpuMemory, log: Log) -> None:
        self._fields = fields
        self._node = node
        self._rank = rank
        self._local_rank = rank % ranks_of_a_node(fields)
        self.peers = Peers(fields, node, rank, log)
        self._stage = Stage(node, rank, self._local_rank, memory)
        self._memory = memory
        self._log = log
        self._target = read_config(fields["model_path"])
        self._speculative = fields["speculative_algorithm"] is not None
        self._foreign = self._foreign_memory()
        self.context_length = 0
        self.max_total_num_tokens = 0
        self.max_running_requests = 0
        self.usage_gb: dict[str, float] = {}

    def run(self) -> dict[str, Any]:
        """Go through all phases and return what the launcher is told when this rank is ready.

        Raises:
            ValueError, RuntimeError, OutOfMemoryError: as the real scheduler does when the start fails.
        """
        self._stage.begin()
        self._stage.enter("starting")
        self.context_length = effective_context_length(self._target, self._fields["context_length"], os.environ)
        if self._speculative and self._fields["context_length"] is not None:
            # The lookup of EAGLE-3's auxiliary layers builds the draft's configuration before any weights are read.
            self._draft_context()
        self._read_generation_config()
        self._distributed("distributed_init", "context_mib")
        available = self._stage.free_mib()
        self._check_balance()
        self._load("weights", self._fields["model_path"], "weights_mib", "weight")
        if self._speculative:
            self._load_draft()
        if self._fields["speculative_adaptive"]:
            AdaptiveSteps(self._fields, self._first_rank_log).announce()
        self._pools(available)
        graphs = GraphCapture(
            self._fields,
            self._node,
            self._stage,
            self.max_running_requests,
            log=self._log,
            first_rank_log=self._first_rank_log,
        )
        graphs.run()
        self._finish()
        return {
            "status": "ready",
            "max_total_num_tokens": self.max_total_num_tokens,
            "max_req_input_len": self.context_length - 6,
            "max_running_requests": self.max_running_requests,
            "context_len": self.context_length,
            "memory_usage": {
                "weight": self.usage_gb.get("weight", 0.0),
                "kvcache": self.usage_gb.get("kvcache", 0.0),
                "token_capacity": self.max_total_num_tokens,
                "graph": graphs.usage_gb,
            },
            "available_gpu_memory_gb": round(self._stage.free_mib() / GIB, 2),
        }

    def _first_rank_log(self, message: str) -> None:
        if self._rank == 0:
            self._log(message)

    def _read_generation_config(self) -> None:
        for path in (self._fields["model_path"], self._fields["speculative_draft_model_path"]):
            if path is not None and not (Path(path) / "generation_config.json").is_file():
                self._log(
                    f"Failed to load generation config for {path}: {path} does not appear to have a file named "
                    f"generation_config.json. Checkout 'https://huggingface.co/{path}/tree/main' for available files.. "
                    "Proceeding without generation config."
                )

    def _distributed(self, phase: str, memory: str) -> None:
        self._log("Init torch distributed begin.")
        self._stage.enter(phase)
        if memory:
            self.peers.meet()
        seconds = self._stage.seconds_of("distributed_init_s") if memory else 0.0
        self._stage.spend(seconds)
        held = float(self._node.memory.get(memory, 0.0)) if memory else 0.0
        self._stage.hold(held)
        self._log(f"Init torch distributed ends. elapsed={seconds:.2f} s, mem usage={held / GIB:.2f} GB")

    def _foreign_memory(self) -> list[int]:
        """Return what others hold of each GPU of this launch; its own ranks hold nothing before they all start."""
        first = self._fields["base_gpu_id"]
        gpus = self._node.gpus[first : first + ranks_of_a_node(self._fields)]
        return [used_by_others(self._node.gpu_dir / f"gpu{gpu['index']}") for gpu in gpus]

    def _check_balance(self) -> None:
        """Refuse a GPU that others use already (``init_torch_distributed`` compares the ranks' free memory)."""
        free = [self._memory.total_mib - used for used in self._foreign]
        local, lowest = free[self._local_rank], min(free)
        if lowest < local * 0.9:
            raise ValueError(
                "The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
                f"min_per_gpu_memory={lowest / GIB:.2f}, local_gpu_memory={local / GIB:.2f}, "
                f"local_gpu_memory * 0.9={local * 0.9 / GIB:.2f}"
            )

    def _load(self, phase: str, path: str, memory: str, usage: str) -> None:
        before = self._stage.free_mib()
        self._log(f"Load weight begin. avail mem={before / GIB:.2f} GB")
        self._stage.enter(phase)
        files = weight_files(path)
        total, size = self._stage.seconds_of(f"{phase}_s"), float(self._node.memory[memory])
        for done, line in progress_lines(len(files), total):
            self._stage.spend(total / len(files) if done else 0.0)
            self._stage.hold(size / len(files) if done else 0.0)
            if self._rank == 0:
                self._log.raw(line)
            if done * 2 >= len(files) and phase == "weights":
                self._host_runs_out_of_memory()
        used = before - self._stage.free_mib()
        self.usage_gb.setdefault(usage, round(used / GIB, 2))
        architecture = (read_config(path).get("architectures") or ["?"])[0]
        self._log(
            f"Load weight end. elapsed={total:.2f} s, type={architecture}, "
            f"avail mem={self._stage.free_mib() / GIB:.2f} GB, mem usage={used / GIB:.2f} GB."
        )

    def _host_runs_out_of_memory(self) -> None:
        victim = self._node.faults.host_oom
        if self._rank == 0 and victim is not None:
            # What the kernel's OOM killer does: no log line, no chance to clean up.
            os.kill(os.getpid() if victim == "scheduler" else os.getppid(), signal.SIGKILL)

    def _draft_context(self) -> None:
        draft = read_config(self._fields["speculative_draft_model_path"])
        effective_context_length(draft, self.context_length, os.environ, is_draft_model=True, warn=self._log)

    def _load_draft(self) -> None:
        self._log("SPECULATIVE_MOE_RUNNER_BACKEND is not initialized, using auto backend")
        self._log("SPECULATIVE_MOE_A2A_BACKEND is not initialized, using none backend")
        self._draft_context()
        self._distributed("draft_weights", "")
        self._load("draft_weights", self._fields["speculative_draft_model_path"], "draft_weights_mib", "draft_weight")

    def _pools(self, available: float) -> None:
        """Size the KV caches as ``profile_max_num_token`` does: what the static fraction leaves beside the weights."""
        self._stage.enter("memory_pool")
        memory = self._node.memory
        per_token = memory["kv_bytes_per_token"]
        draft_per_token = memory["draft_kv_bytes_per_token"] if self._speculative else 0.0
        rest = self._stage.free_mib() - available * (1.0 - float(self._fields["mem_fraction_static"]))
        tokens = int(rest * 1024 * 1024 // (per_token + draft_per_token))
        if tokens <= 0:
            raise RuntimeError(
                "Not enough memory. Please try to increase --mem-fraction-static. "
                f"Current value: self.server_args.mem_fraction_static={self._fields['mem_fraction_static']}"
            )
        limit = self._fields["max_total_tokens"]
        self.max_total_num_tokens = tokens if limit is None else min(limit, tokens)
        self._stage.spend(self._stage.seconds_of("memory_pool_s"))
        self._allocate_pool(per_token, latent="kv_lora_rank" in text_config(self._target))
        if self._speculative:
            self._allocate_pool(draft_per_token, latent=False)
        requested = self._fields["max_running_requests"]
        default = min(max(int(self.max_total_num_tokens / self.context_length * 512), 2048), 4096)
        self.max_running_requests = default if requested is None else min(requested, self.max_total_num_tokens)

    def _allocate_pool(self, bytes_per_token: float, *, latent: bool) -> None:
        mib = self.max_total_num_tokens * bytes_per_token / 1024 / 1024
        self._stage.hold(mib)
        self.usage_gb.setdefault("kvcache", round(mib / GIB, 2))
        half = f"{mib / GIB / 2:.2f} GB"
        size = f"KV size: {mib / GIB:.2f} GB" if latent else f"K size: {half}, V size: {half}"
        self._log(f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {self.max_total_num_tokens}, {size}")
        self._log(f"Memory pool end. avail mem={self._stage.free_mib() / GIB:.2f} GB")

    def _finish(self) -> None:
        if self._rank == 0:
            self._log(
                f"max_total_num_tokens={self.max_total_num_tokens}, "
                f"chunked_prefill_size={self._fields['chunked_prefill_size']}, "
                f"max_prefill_tokens={self._fields['max_prefill_tokens']}, "
                f"max_running_requests={self.max_running_requests}, context_len={self.context_length}, "
                f"available_gpu_mem={self._stage.free_mib() / GIB:.2f} GB"
            )
        self._log(
            "Tree cache initialized: source=default impl=RadixCache hybrid_swa=False hybrid_ssm=False "
            "hierarchical=False streaming_wrapped=False"
        )
