"""Find out from a log why a launch of SGLang failed.

`SIGNATURES` is the knowledge, as data: what a line says, which class of failure that is, and what to do about it.
`find_cause` applies it: the first exception of the rank that failed first is the cause; what other ranks and the
launcher say afterwards only follows from it. Pure: lines in, cause out.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Iterator, List, Optional, Sequence, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import (
    PhaseTracker,
    is_fatal,
    parse_stamp,
    strip_collector,
)

UNKNOWN = "unknown"
NO_CAUSE = "no cause in the log"


@dataclasses.dataclass(frozen=True)
class Signature:
    """One sign of one class of failure.

    Attributes:
        pattern: searched in the message of a line.
        failure_class: identifier of the class.
        remedy: what to do, as one imperative phrase.
        source: where the wording stands, so that it can be checked again.
        phases: phases in which the pattern means this class; () for all.
    """

    pattern: re.Pattern[str]
    failure_class: str
    remedy: str
    source: str
    phases: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Cause:
    """Why a launch failed: class, the line that says so ("" when there is none), and the remedy."""

    failure_class: str
    line: str
    remedy: str


def _signature(pattern: str, failure_class: str, remedy: str, source: str, phases: Tuple[str, ...] = ()) -> Signature:
    return Signature(re.compile(pattern), failure_class, remedy, source, phases)


_GRAPH_PHASES = ("target_graphs", "draft_graphs")
_LOWER_MEMORY = (
    "lower sglang_server_mem_fraction_static, sglang_server_cuda_graph_max_bs or sglang_server_max_running_requests"
)

# Order matters within one line only: the more specific sign comes first.
SIGNATURES: Tuple[Signature, ...] = (
    _signature(
        r"context_length \(\d+\) is greater than the derived context_length \(\d+\)",
        "draft-context",
        "check that the draft model was trained for this target, then let the role draft_config limit the context or"
        " patch the draft's max_position_embeddings",
        "srt/configs/model_config.py _derive_context_length, 0.5.6-0.5.23",
    ),
    _signature(
        r"EADDRINUSE|[Aa]ddress already in use|_port is used by a process already|_port at \d+ is not available",
        "port-in-use",
        "stop the process that holds the port (playbooks/clean.yml when it is a left-over of ours),"
        " or set another sglang_server_port",
        "srt/utils/network.py wait_port_available; uvicorn; torch TCPStore",
    ),
    _signature(
        r"Not enough memory\. Please try to increase --mem-fraction-static"
        r"|larger than the profiled value -\d+",
        "kv-oom",
        "raise sglang_server_mem_fraction_static, or make room by a smaller sglang_server_context_length",
        "srt/model_executor/model_runner.py init_memory_pool, 0.5.6-0.5.23",
    ),
    _signature(
        r"The memory capacity is unbalanced",
        "gpu-occupied",
        "free the GPUs with playbooks/clean.yml and look for other processes on them",
        "srt/model_executor/model_runner.py init_torch_distributed, 0.5.6-0.5.23",
    ),
    _signature(
        r"out of resource: shared memory, Required: \d+, Hardware limit: \d+",
        "triton-smem",
        "choose another attention backend: this kernel needs more shared memory than the GPU has",
        "triton/runtime/errors.py OutOfResources",
    ),
    _signature(
        r"(?:CUDA out of memory|OutOfMemoryError).*",
        "kv-oom",
        "free the GPUs with playbooks/clean.yml; if they are free, the model does not fit on this many GPUs",
        "torch.OutOfMemoryError while weights or the KV pool are allocated",
        ("starting", "distributed_init", "weights", "draft_weights", "memory_pool"),
    ),
    _signature(
        r"CUDA out of memory|OutOfMemoryError",
        "graph-oom",
        _LOWER_MEMORY,
        "srt/model_executor/cuda_graph_runner.py 'Capture cuda graph failed', 0.5.6-0.5.23",
    ),
    _signature(
        r"set_eagle3_layers_to_capture|language_model does not support EAGLE3",
        "target-unsupported",
        "install a newer SGLang: this version has no EAGLE-3 support for the target model (Kimi-K2.5 needs 0.5.10)",
        "srt/model_executor/model_runner.py 0.5.9; attention_backend_setup.py 0.5.23; models/kimi_k25.py 0.5.10",
    ),
    _signature(
        r"Model architectures \[.*\] are not supported for now|KeyError: 'midlayer\."
        r"|EAGLE3 (?:currently )?only supports 1 layer|Eagle3 MLA layer requires q_lora_rank"
        r"|KeyError: '(?:eagle3|kimi_k2\w*|deepseek_v3)'",
        "draft-arch",
        "use a draft model whose config.json names an EAGLE-3 architecture of this SGLang (LlamaForCausalLMEagle3)",
        "srt/models/registry.py; srt/models/llama_eagle3.py; srt/models/kimi_k25_eagle3.py",
    ),
    _signature(
        r"size mismatch for lm_head\.weight|Expected logits to have shape|has no attribute 'draft_vocab_size'",
        "draft-vocab",
        "use the draft's original config.json with draft_vocab_size, and a checkpoint that holds d2t",
        "srt/models/llama_eagle3.py; SafeAILab/EAGLE",
    ),
    _signature(
        r"is not supported in (?:decode )?attention backend",
        "draft-backend",
        "set --speculative-draft-attention-backend in sglang_server_extra_flags to a backend that the draft supports",
        "srt/speculative/draft_utils.py, 0.5.6-0.5.23",
    ),
    _signature(
        r"assert not get_global_server_args\(\)\.disable_chunked_prefix_cache",
        "draft-globals",
        "install a newer SGLang, or lower sglang_server_max_running_requests",
        "srt/layers/attention/flashattention_backend.py",
    ),
    _signature(
        r"references \d+ shard file\(s\) missing|Error while deserializing header|InvalidHeaderDeserialization"
        r"|Cannot find any model weights|Incorrect path_or_model_id|Repo id must (?:be|use)"
        r"|is not a local folder and is not a valid model identifier|does not appear to have a file named config\.json"
        r"|LocalEntryNotFoundError|OfflineModeIsEnabled|contains custom code which must be executed",
        "shards",
        "check that the path is right and the download of the model complete",
        "srt/model_loader/weight_utils.py 0.5.17+; safetensors; transformers",
    ),
    _signature(
        r"(?:launch_server\.py|sglang serve|sglang): error: |unrecognized arguments|ambiguous option"
        r"|'>' not supported between instances of 'NoneType' and 'int'"
        r"|speculative_num_steps.*must be|Sizes of tensors must match except in dimension",
        "spec-args",
        "correct the flag: see `python3 -m sglang.launch_server --help` of the installed version",
        "argparse; srt/arg_groups/speculative_hook.py",
    ),
    _signature(
        r"Exit code: -9$|exit code:? -9\b",
        "host-oom",
        "look for the OOM killer in the host's kernel log (dmesg) and give the container more memory;"
        " if it was not the OOM killer, somebody killed the process",
        "srt/entrypoints/engine.py _scheduler_died_error, 0.5.10+; 'Exit code' up to 0.5.9",
    ),
    _signature(
        r"failed to extend /dev/shm/nccl|creating shared memory segment /dev/shm/nccl|posix_fallocate failed",
        "shm-small",
        "enlarge /dev/shm of the container and remove stale /dev/shm/nccl-* files",
        "NCCL misc/shmutils.cc",
    ),
    _signature(
        r"NCCL error: |ncclUnhandledCudaError|ncclSystemError|DistBackendError",
        "nccl-system",
        "repeat the launch with NCCL_DEBUG=INFO in nccl_env_variables and read NCCL's own warning",
        "srt/distributed/device_communicators/pynccl_wrapper.py",
    ),
    _signature(
        r"no kernel image is available",
        "kernel-arch",
        "install kernels that were built for this GPU's architecture",
        "CUDA runtime error 209",
    ),
    _signature(
        r"Could not load any common_ops library|libnvrtc\.so\.\d+: cannot open|undefined symbol: ",
        "kernel-abi",
        "install the kernel package that belongs to the installed torch and CUDA versions",
        "sgl_kernel/load_utils.py",
    ),
    _signature(
        r"Ninja build failed|Command '\['ninja'|nvcc: not found|Could not find nvcc",
        "jit-build",
        "install the CUDA toolkit and ninja, or a prebuilt kernel cache; ninja's own message stands above",
        "flashinfer/jit/cpp_ext.py",
    ),
    _signature(
        r"PermissionError: \[Errno 13\].*(?:\.triton|\.cache|flashinfer)",
        "cache-perm",
        "give the user a kernel cache that it may write (TRITON_CACHE_DIR in sglang_server_environment)",
        "triton/runtime/cache.py",
    ),
    _signature(
        r"[Ww]atchdog timeout \(self\.watchdog_timeout=[\d.]+(?:, self\.soft=False)?\)",
        "watchdog",
        "read the stacks above it: one forward step took longer than --watchdog-timeout",
        "srt/utils/watchdog.py, 0.5.6-0.5.23",
    ),
    _signature(
        r"invalid literal for int\(\) with base 10: 'MIG-",
        "mig",
        "turn MIG off or name the devices by index",
        "CUDA_VISIBLE_DEVICES with MIG identifiers",
    ),
    _signature(
        r"NaN in the logits",
        "nan-logits",
        "disable the radix cache (--disable-radix-cache) or install a newer SGLang",
        "srt/speculative/spec_utils.py detect_nan",
    ),
    _signature(
        r"illegal memory access",
        "graph-ima",
        "choose another attention backend, or rule graphs out with --disable-cuda-graph",
        "CUDA runtime error 700 while graphs are captured",
        _GRAPH_PHASES,
    ),
    _signature(
        r"illegal memory access|device-side assert triggered|Assertion `.*` failed",
        "serving-ima",
        "check the draft's vocabulary against the target's and keep the context within the draft's trained window",
        "CUDA runtime errors 700 and 710",
    ),
    _signature(
        r"Initialization failed\. warmup error:",
        "warmup",
        "read the traceback above it: the first request of the server to itself failed",
        "srt/entrypoints/http_server.py _wait_and_warmup, 0.5.6-0.5.23",
    ),
)

# What only follows from another failure. These alone never name a cause.
_SECONDARY = re.compile(
    r"Connection (?:closed by peer|reset by peer)"
    r"|SIGQUIT received|Received sigquit from a child process"
    r"|kill_process_tree called"
)
# Says which rank is missing, not why; only believed when nothing else is found.
_STRAGGLER = re.compile(r"could finish the model loading, but there are other ranks")
_STRAGGLER_REMEDY = (
    "look for the rank that did not finish: its own log lines, the host's kernel log and the disk's throughput"
)
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|OutOfResources|Exit|Interrupt)(?::|$)")
_WRAPPER = re.compile(r"^Exception: Capture cuda graph failed: ")


def find_cause(lines: Sequence[str]) -> Cause:
    """Return why the launch whose log this is failed.

    Blocks (a stamped line and what follows it without a stamp) that hold a traceback or a fatal message are taken in
    order. In the first of them that is not merely secondary, a known signature decides; the exception of a scheduler
    that no signature knows is still the cause, of class `unknown`.

    Args:
        lines: the log of one launch, oldest first.
    """
    tracker = PhaseTracker(0.0, speculative=True)
    fallback: Optional[Cause] = None
    straggler: Optional[Cause] = None
    for block in _blocks(lines):
        for line in block:
            tracker.feed(line, 0.0)
        if not _is_failing(block):
            continue
        known = _match(block, tracker.phase)
        if known is not None:
            return known
        exception = _first_exception(block)
        if exception is None:
            continue
        if _STRAGGLER.search(exception):
            straggler = straggler or Cause("load-straggler", exception, _STRAGGLER_REMEDY)
            continue
        fallback = fallback or Cause(UNKNOWN, exception, "read the traceback in the log")
        if any("Scheduler hit an exception" in line for line in block):
            return fallback
    if fallback is None and straggler is None:
        # No exception at all: a warning that stands alone is better than nothing.
        fallback = _match(lines, tracker.phase)
    return fallback or straggler or Cause(UNKNOWN, "", "read the log and the host's kernel log")


def _blocks(lines: Sequence[str]) -> Iterator[List[str]]:
    block: List[str] = []
    for raw in lines:
        line = strip_collector(raw)
        stamp, _message = parse_stamp(line)
        if stamp is not None and block:
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _is_failing(block: Sequence[str]) -> bool:
    return any(
        "Traceback (most recent call last)" in line
        or is_fatal(line)
        or _EXCEPTION.match(parse_stamp(line)[1].strip())
        or re.search(r"\b[Ee]xit code:? -?\d+", line)
        for line in block
    )


def _match(block: Sequence[str], phase: str) -> Optional[Cause]:
    """Messages first, then the traceback's source lines: `raise RuntimeError(f"...")` is no sentence for people."""
    for source_lines in (False, True):
        for line in block:
            message = parse_stamp(line)[1]
            if line[:1].isspace() != source_lines and "size mismatch" not in line:
                continue
            cause = _classify(message.strip(), phase)
            if cause is not None:
                return cause
    return None


def _classify(message: str, phase: str) -> Optional[Cause]:
    if _SECONDARY.search(message) or message.startswith(("server_args=", 'File "')):
        return None
    if _WRAPPER.match(message):
        # A capture failure belongs to the graph phases, even when the log does not show their begin.
        phase = phase if phase in _GRAPH_PHASES else _GRAPH_PHASES[0]
    for signature in SIGNATURES:
        if (not signature.phases or phase in signature.phases) and signature.pattern.search(message):
            return Cause(signature.failure_class, message, signature.remedy)
    return None


def _first_exception(block: Sequence[str]) -> Optional[str]:
    """The innermost exception stands first in a chained traceback; secondary ones do not count."""
    for line in block:
        message = parse_stamp(line)[1].strip()
        if _EXCEPTION.match(message) and not _SECONDARY.search(message):
            return message
    return None
