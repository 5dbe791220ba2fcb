"""Signatures of GPU and host memory that does not suffice or is taken."""

from __future__ import annotations

from typing import Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import (
    FOLLOWS,
    GENERAL,
    GRAPH_PHASES,
    LOADING_PHASES,
    LOW,
    MEDIUM,
    Signature,
    signature,
)

_OUT_OF_MEMORY = (
    r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"
    r"|HIP out of memory|cudaMalloc.*out of memory|Cuda failure 'out of memory'|CUBLAS_STATUS_ALLOC_FAILED"
    r"|CUresult error\s+result=2\b|(?:Prefill|Decode|Extend) out of memory"
)
_RUNNER = "srt/model_executor/model_runner.py"

SIGNATURES: Tuple[Signature, ...] = (
    signature(
        "kv-oom/pool",
        r"[Nn]ot enough memory\. Please (?:try to )?(?:increase|raise) .{0,3}mem[-_]fraction[-_]static"
        r"|[Pp]lease (?:try to )?(?:increase|raise) .{0,3}mem[-_]fraction[-_]static"
        r"|larger than the profiled value -\d+|No available memory for the cache blocks"
        r"|Available KV cache memory: -|max_total_num_tokens=-\d+"
        r"|KV cache .*(?:smaller|larger) than .*(?:max_model_len|maximum number of tokens)"
        r"|larger than the (?:maximum number of tokens that can be stored in KV cache|available KV cache memory)"
        r"|[Nn]ot enough (?:GPU )?memory (?:for|to) .{0,60}(?:KV|pool|cache)",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        f"{_RUNNER} init_memory_pool; vllm v1/core/kv_cache_utils.py",
        versions="0.5.6-0.5.23",
        at="memory_pool",
    ),
    signature(
        "graph-oom/capture",
        rf"[Cc]apture (?:[\w ]+ )?(?:cuda|CUDA) ?graphs? failed: .*(?:{_OUT_OF_MEMORY}|out of memory)",
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 448.00 MiB.",
        "srt/model_executor/cuda_graph_runner.py",
        versions="0.5.6-0.5.23",
    ),
    signature(
        "graph-oom/in-phase",
        _OUT_OF_MEMORY,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB.",
        "torch allocator while graphs are captured",
        phases=GRAPH_PHASES,
    ),
    signature(
        "kv-oom/loading",
        _OUT_OF_MEMORY,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB.",
        "torch allocator while weights or the pool are allocated",
        phases=LOADING_PHASES,
        confidence=MEDIUM,
    ),
    signature(
        "kv-oom/serving",
        _OUT_OF_MEMORY,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB.",
        "torch allocator while requests are served: no headroom beside the pool",
        phases=("warmup", "serving"),
        confidence=MEDIUM,
    ),
    signature(
        "gpu-occupied/unbalanced",
        r"[Mm]emory capacity is unbalanced|Some GPUs may be occupied by other processes"
        r"|Free memory on device .* is less than desired GPU memory utilization|Error in memory profiling",
        "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes."
        " min_per_gpu_memory=8.88, local_gpu_memory=11.90",
        f"{_RUNNER} init_torch_distributed; vllm v1/worker/gpu_worker.py",
        versions="0.5.6-0.5.23",
    ),
    signature(
        "gpu-occupied/busy",
        r"CUDA-capable device\(s\) is/are busy|all CUDA-capable devices are busy or unavailable",
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "CUDA runtime error 46: exclusive mode, or a GPU that needs a reset",
        confidence=MEDIUM,
    ),
    signature(
        "host-oom/kernel",
        r"Out of memory: Kill(?:ed)? process|[Mm]emory cgroup out of memory|oom-kill:constraint|oom_reaper: reaped"
        r"|invoked oom-killer|killed by the OOM killer|OOMKilled|Failed with result 'oom-kill'"
        r"|Task in \S+ killed as a result of limit|node running low on memory|ray\.exceptions\.OutOfMemoryError"
        r"|\bMemory cgroup stats for\b",
        "Memory cgroup out of memory: Killed process 4711 (sglang::schedul) total-vm:900000000kB, anon-rss:400000000kB",
        "Linux mm/oom_kill.c; systemd; Kubernetes",
    ),
    signature(
        "host-oom/allocator",
        r"DefaultCPUAllocator: (?:can't|not enough) (?:allocate )?memory|^MemoryError\b|std::bad_alloc"
        r"|OSError: \[Errno 12\] Cannot allocate memory",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory",
        "torch c10/core/impl/alloc_cpu.cpp",
    ),
    signature(
        "host-oom/killed-while-starting",
        r"scheduler (?:is dead|died).*exit ?code:? -9|^\W*[Ee]xit ?code:? -9\b|exit code:? -9\b|exitcode[=:] ?-9\b"
        r"|status=9/KILL|died with <Signals\.SIGKILL: 9>|terminated by signal (?:SIGKILL|9)"
        r"|[Ee]xit(?:ed)?(?: with)?(?: ?[Cc]ode| status)?[ :=(]+137\b|killed by signal:? (?:9|SIGKILL|Killed)",
        "Rank 3 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a"
        " common cause is the"
        " OS OOM killer.",
        "srt/entrypoints/engine.py _scheduler_died_error",
        versions="'Exit code' up to 0.5.9, 'died during initialization' from 0.5.10",
        strength=GENERAL,
        confidence=MEDIUM,
        phases=(*LOADING_PHASES, *GRAPH_PHASES),
    ),
    signature(
        "load-straggler/barrier",
        r"could finish the model loading, but there are other ranks"
        r"|monitoredBarrier|failed to pass monitoredBarrier",
        "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading.",
        f"{_RUNNER} load_model: barrier of 480 s",
        versions="0.5.6-0.5.23",
        strength=FOLLOWS,
        confidence=MEDIUM,
        at="weights",
    ),
    signature(
        "orphan/reparented",
        r"(?:^|\s)\d+\s+1\s+(?:\S+\s+){0,7}?(?:sgl\w*::|VLLM::|ray::SGLang|\S*python\S* -m sglang)"
        r"|(?:systemd|init|tini|bash|sleep)\(1\)[-+`|]*.{0,40}sglang::"
        r"|(?:sglang::\w+|launch_server).{0,40}\b(?:ppid|PPID|parent)[=: ]+1\b|\bppid[=: ]+1\b.{0,60}(?:sglang::"
        r"|launch_server)",
        "root     2505781       1  sglang::scheduler_DP0_TP0",
        "ps: schedulers whose parent is PID 1; sgl-project/sglang#23627",
    ),
    signature(
        "orphan/defunct",
        r"sglang\S*\s+<defunct>|\[(?:sglang|python)\S*\] <defunct>",
        "root     4711  4700  [sglang::schedul] <defunct>",
        "ps: children that nobody waits for",
        confidence=MEDIUM,
    ),
    signature(
        "orphan/holds-gpu",
        r"(?:^|\|)\s*\d+\s+(?:N/A\s+N/A\s+)?\d+\s+(?:[CG+]+\s+)?sglang::\w+.*\d+ ?MiB"
        r"|^\d+, *sglang::\w+, *\d+|^GPU-[0-9a-f-]+, *\d+, *sglang::\w+",
        "|    0   N/A  N/A         2505781      C   sglang::scheduler_TP0                100998MiB |",
        "nvidia-smi: a scheduler holds memory; whether its launcher lives is not shown",
        strength=FOLLOWS,
        confidence=LOW,
    ),
)
