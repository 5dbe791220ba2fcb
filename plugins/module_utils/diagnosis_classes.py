"""The classes of failure: what each means, and what to do about it in which phase."""

from __future__ import annotations

import dataclasses
from typing import Dict, Mapping

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import GRAPH_PHASES, UNKNOWN

RUNBOOK_DIRECTORY = "docs/runbooks"

_LOWER_MEMORY = (
    "lower sglang_server_mem_fraction_static (by 0.02 to 0.05), sglang_server_cuda_graph_max_bs or"
    " sglang_server_max_running_requests: the pool of keys and values leaves too little for this phase"
)
_FREE_FIRST = (
    "free the GPUs with playbooks/clean.yml; if they are free, the weights need more GPUs, a smaller model or a smaller"
    " draft"
)


@dataclasses.dataclass(frozen=True)
class FailureClass:
    """One class of failure.

    Attributes:
        meaning: what it is, as one clause.
        remedy: what to do, as one imperative phrase.
        by_phase: remedies that differ from it in some phases.
    """

    meaning: str
    remedy: str
    by_phase: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def remedy_in(self, phase: str) -> str:
        """Return what to do when it happened in this phase."""
        return self.by_phase.get(phase, self.remedy)


CLASSES: Dict[str, FailureClass] = {
    "adaptive-start": FailureClass(
        "adaptive speculation cannot start at this number of steps",
        "set sglang_server_speculative_num_steps to its largest candidate, 7 unless speculative-adaptive-config names"
        " others; SGLang 0.5.19 and later take any candidate",
    ),
    "cache-perm": FailureClass(
        "the kernel cache cannot be written",
        "give the server a kernel cache on a local disk that its user may write (TRITON_CACHE_DIR in"
        " sglang_server_environment)",
    ),
    "controlpath": FailureClass(
        "the path of an SSH control or agent socket is too long for the kernel",
        "shorten it: set control_path_dir to a short directory (or ControlPath=~/.ssh/%C), and run from a short path",
    ),
    "custom-ar": FailureClass(
        "SGLang's own all-reduce does not work between these GPUs",
        "set sglang_server_disable_custom_all_reduce to true: NCCL does the all-reduce then",
    ),
    "draft-arch": FailureClass(
        "this SGLang does not know the draft's architecture",
        "use a draft model whose config.json names an EAGLE-3 architecture of this SGLang (LlamaForCausalLMEagle3), or"
        " a newer SGLang (MLA drafts need 0.5.12)",
    ),
    "draft-backend": FailureClass(
        "the attention backend cannot run the draft",
        "set speculative-draft-attention-backend in sglang_server_extra_flags to a backend that the draft supports",
    ),
    "draft-context": FailureClass(
        "the draft's context is shorter than the target's",
        "check that the draft model was trained for this target, then let the role draft_config limit the context or"
        " patch the draft's max_position_embeddings",
        {"serving": "keep requests within the draft's trained context: lower sglang_server_context_length"},
    ),
    "draft-globals": FailureClass(
        "the draft's start changed settings of the target",
        "install a newer SGLang, or lower sglang_server_max_running_requests so that the pool does not fill up",
    ),
    "draft-keys": FailureClass(
        "a tensor of the checkpoint has no place in the model, or the reverse",
        "check that draft checkpoint, its quantization and its config.json belong together and to this SGLang version",
    ),
    "draft-unwired": FailureClass(
        "no token of the draft is accepted",
        "check the draft's tensors (lm_head, embed_tokens, d2t) with the role draft_config and that it belongs to this"
        " target; serve without speculation meanwhile",
    ),
    "draft-vocab": FailureClass(
        "the draft's vocabulary does not fit",
        "use the draft's original config.json with draft_vocab_size, and a checkpoint that holds d2t",
    ),
    "gpu-occupied": FailureClass(
        "GPUs have different amounts of free memory",
        "free the GPUs with playbooks/clean.yml and look for other processes on them",
        {
            "draft_weights": "look for other processes on the GPUs; with none, the target's own memory is counted"
            " against the draft: install a newer SGLang",
        },
    ),
    "graph-ima": FailureClass(
        "a kernel accessed memory that is not its own while graphs were captured",
        "choose another attention backend, or rule graphs out with disable-cuda-graph in sglang_server_extra_flags",
    ),
    "graph-oom": FailureClass("there is too little GPU memory left for CUDA graphs", _LOWER_MEMORY),
    "healthy": FailureClass("the server serves", "nothing to do"),
    "host-oom": FailureClass(
        "the kernel killed a process for want of host memory",
        "look for the OOM killer in the host's kernel log (dmesg) and give the container more memory; if it was not"
        " the OOM killer, somebody killed the process",
    ),
    "input-too-long": FailureClass(
        "a request is longer than the server can take",
        "shorten the prompts, or make room: raise sglang_server_mem_fraction_static or sglang_server_context_length",
    ),
    "jit-build": FailureClass(
        "a kernel could not be compiled on the target",
        "install the CUDA toolkit and ninja, or a prebuilt kernel cache; the compiler's own message stands above",
    ),
    "kernel-abi": FailureClass(
        "compiled kernels do not belong to the installed torch, CUDA or driver",
        "install the kernel package that belongs to the installed torch, CUDA and driver versions",
    ),
    "kernel-arch": FailureClass(
        "a kernel was not built for this GPU",
        "install kernels that were built for this GPU's architecture, or choose a backend that has them",
    ),
    "kv-oom": FailureClass(
        "the GPU memory does not suffice",
        _FREE_FIRST,
        {
            "memory_pool": "raise sglang_server_mem_fraction_static, or make room by a smaller"
            " sglang_server_context_length",
            "warmup": _LOWER_MEMORY,
            "serving": _LOWER_MEMORY,
        },
    ),
    "load-straggler": FailureClass(
        "a rank did not finish loading its weights in time",
        "look for the rank that did not finish: its own log lines, the host's kernel log and the disk's throughput",
    ),
    "lxc-device": FailureClass(
        "the container cannot use the host's GPUs",
        "load nvidia_uvm on the host, compare the device nodes, their major numbers and the driver's version in host"
        " and"
        " container, then restart the container",
    ),
    "mig": FailureClass(
        "the GPU is a MIG or vGPU slice",
        "turn MIG off (nvidia-smi -mig 0 on the host): tensor parallelism needs whole GPUs",
    ),
    "nan-logits": FailureClass(
        "the model computes NaN",
        "set disable-radix-cache in sglang_server_extra_flags or install a newer SGLang; empty the kernel caches after"
        " an upgrade",
    ),
    "nccl-system": FailureClass(
        "NCCL could not set its connections up",
        "repeat the launch with NCCL_DEBUG=WARN in nccl_env_variables and read NCCL's own warning",
    ),
    "orphan": FailureClass(
        "processes of an ended launch still hold the GPUs",
        "end them with playbooks/clean.yml",
    ),
    "p2p-hang": FailureClass(
        "the GPUs wait for each other: copies between them do not arrive",
        "try NCCL_P2P_DISABLE=1 in nccl_env_variables together with sglang_server_disable_custom_all_reduce; when that"
        " helps, turn the IOMMU's translation and ACS off on the host",
    ),
    "peer-died": FailureClass(
        "another process died first",
        "look elsewhere: the rank that failed first, or the host's kernel log, has the cause",
    ),
    "port-in-use": FailureClass(
        "the port is taken",
        "stop the process that holds the port (playbooks/clean.yml when it is a left-over of ours), or set another"
        " sglang_server_port",
    ),
    "serving-ima": FailureClass(
        "a kernel accessed memory that is not its own",
        "check the draft's vocabulary against the target's, keep the context within the draft's trained window, and"
        " try another attention backend",
    ),
    "shards": FailureClass(
        "the model on disk is incomplete, damaged or not where it should be",
        "check that the path is right and the download of the model complete",
    ),
    "shm-small": FailureClass(
        "the shared memory file system of the container is too small",
        "enlarge /dev/shm of the container and remove stale /dev/shm/nccl-* files",
    ),
    "slow-spec": FailureClass(
        "few tokens of the draft are accepted",
        "measure whether speculation pays (python -m controller sweep); serve without it if it does not",
    ),
    "spec-args": FailureClass(
        "SGLang refuses the settings or they do not fit together",
        "correct the flag: see `python3 -m sglang.launch_server --help` of the installed version",
        {
            "serving": "use sglang_server_speculative_eagle_topk 1 with steps + 1 draft tokens",
            **dict.fromkeys(GRAPH_PHASES, "use sglang_server_speculative_eagle_topk 1 with steps + 1 draft tokens"),
        },
    ),
    "target-unsupported": FailureClass(
        "this SGLang has no EAGLE-3 support for the target",
        "install a newer SGLang: this version has no EAGLE-3 support for the target model (Kimi-K2.5 needs 0.5.10)",
    ),
    "triton-smem": FailureClass(
        "a kernel needs more shared memory than a multiprocessor of the GPU has",
        "choose another attention backend: this kernel needs more shared memory than the GPU has",
    ),
    UNKNOWN: FailureClass(
        "the log does not say",
        "read the log around the line and the host's kernel log",
        {
            "distributed_init": "suspect the way between the GPUs: try NCCL_P2P_DISABLE=1 in nccl_env_variables with"
            " sglang_server_disable_custom_all_reduce, and look at the host's kernel log",
        },
    ),
    "warmup": FailureClass(
        "the server's first request to itself failed",
        "read the traceback above it: the first request of the server to itself failed",
    ),
    "watchdog": FailureClass(
        "one step took longer than the watchdog allows",
        "read the stacks above it: one step took longer than watchdog-timeout; run fewer requests at once",
    ),
    "xid": FailureClass(
        "the GPU or its driver reported a fault",
        "stop the server and reset the GPU: reboot the host, by power cycle when the driver asks for a reset",
    ),
}


def runbook(failure_class: str) -> str:
    """Return the page about a class, relative to the repository."""
    return f"{RUNBOOK_DIRECTORY}/{failure_class}.md"
