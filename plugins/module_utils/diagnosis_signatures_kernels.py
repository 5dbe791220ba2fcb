"""Signatures of kernels that do not load, build or run."""

from __future__ import annotations

from typing import Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import (
    GENERAL,
    GRAPH_PHASES,
    MEDIUM,
    Signature,
    signature,
)

_ILLEGAL = (
    r"illegal memory access|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS|misaligned address"
    r"|CUDA error: an illegal instruction|an illegal instruction was encountered"
)

SIGNATURES: Tuple[Signature, ...] = (
    signature(
        "triton-smem/out-of-resource",
        r"out of resource: shared memory|OutOfResources|dynamic shared memory.*(?:exceed|larger|limit)"
        r"|Failed to set the allowed dynamic shared memory size|uses too much shared data"
        r"|too many resources requested for launch|exceeds? .{0,40}shared memory .{0,20}limit",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496,"
        " Hardware limit: 101376.",
        "triton/runtime/errors.py; ptxas; flashinfer",
    ),
    signature(
        "kernel-arch/no-image",
        r"no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU"
        r"|invalid device function|CUDA error: named symbol not found|not present in the compiled registry",
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        "CUDA runtime error 209",
    ),
    signature(
        "kernel-arch/not-built",
        r"Arch conditional MMA instruction used without targeting|Value 'sm_\w+' is not defined for option 'gpu-name'"
        r"|[Uu]nsupported (?:GPU )?(?:compute capability|SM version|architecture\b(?!s))"
        r"|FlashAttention\b.{0,60}(?:only supports? (?:Ampere|fp16)|Ampere/Ada cards|requires? SM)"
        r"|not supported for the current GPU\. Minimum capability|type fp8\w+ not supported in this architecture"
        r"|requires \.target sm_\d+"
        r"|(?:compute|CUDA) capability .{0,40}(?:is )?(?:too low|not supported|below|or (?:higher|later|newer))"
        r"|(?:only )?(?:available|works?|supported) (?:only )?on (?:SM ?\d|sm_?\d|Hopper|Blackwell|[HB]\d00)"
        r"|(?:not supported (?:on|for)|requires?|only supports?|unsupported) (?:\w+ )?(?:SM ?\d|sm_?\d"
        r"|[Cc]ompute [Cc]apability"
        r"|Hopper|CUDA arch)",
        "RuntimeError: FlashMLA is not supported on SM120",
        "cutlass; ptxas; sgl_kernel; flashinfer",
        confidence=MEDIUM,
    ),
    signature(
        "kernel-arch/torch-warning",
        r"is not compatible with the current PyTorch installation",
        "NVIDIA RTX PRO 6000 with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
        "torch/cuda/__init__.py",
        warning=True,
    ),
    signature(
        "kernel-abi/library",
        r"(?<!Ignore import error)Could not load any common_ops library"
        r"|lib(?:nvrtc|cudart|cublas\w*|cudnn\w*|nccl|cusparse\w*|nvJitLink|cufft|curand|c10\w*"
        r"|torch\w*)[\w.-]*\.so[.\d]*:"
        r" (?:cannot open|version)|undefined symbol: |version `GLIBC(?:XX)?_[\d.]+' not found"
        r"|unsupported toolchain|CUDA driver version is insufficient|NVIDIA driver on your system is too old"
        r"|has no attribute 'get_num_sms'|No module named '?(?:sgl_kernel|flashinfer|vllm\._C|deep_gemm|flash_attn)\b"
        r"|is installed with version .*less than the minimum|with minimum required version \S+ is not installed"
        r"|unsupported display driver|forward compatibility was attempted",
        "ImportError: libnvrtc.so.12: cannot open shared object file: No such file or directory",
        "sgl_kernel/load_utils.py; ld.so; CUDA runtime errors 35, 803, 804",
    ),
    signature(
        "kernel-abi/versions",
        r"cannot import name '\w+' from '(?:sgl_kernel|flashinfer|deep_gemm|flash_attn|triton)\b"
        r"|'_OpNamespace' '\w+' object has no attribute|operator torchvision::\w+ does not exist"
        r"|module 'sgl_kernel' has no attribute|sgl_kernel\w*\(\) (?:got an unexpected|takes|missing)"
        r"|flashinfer[-_]\w+ version .*does not match|[Ff]lash[Ii]nfer .*version.*(?:less than|does not match)"
        r"|CUDNN_STATUS_(?:SUBLIBRARY_)?VERSION_MISMATCH|Torch not compiled with CUDA enabled"
        r"|error while loading shared libraries: ",
        "ImportError: cannot import name 'fused_marlin_moe' from 'sgl_kernel' (/env/sgl_kernel/__init__.py)",
        "sgl_kernel, flashinfer, torchvision, cudnn: what one calls the other does not have; sgl-project/sglang#8654",
        confidence=MEDIUM,
    ),
    signature(
        "cache-perm/denied",
        r"(?:Permission denied|Read-only file system|Stale file handle|Disk quota exceeded)"
        r".*(?:\.triton|triton|\.cache|flashinfer|torchinductor|torch_extensions|deep_?gemm|tvm|\.nv/|inductor)"
        r"|No space left on device.*(?:\.triton|/triton|\.cache|torchinductor|torch_extensions|\.nv/)"
        r"|cannot cache function .*no locator available",
        "PermissionError: [Errno 13] Permission denied: '/app/engine/.triton'",
        "triton/runtime/cache.py; flashinfer/jit; torch/_inductor",
    ),
    signature(
        "jit-build/compiler",
        r"[Nn]inja build failed|Command '\[\S*ninja|ninja: (?:build stopped|error|fatal)|Ninja is required"
        r"|ninja exited with status|\bld: cannot find -l|collect2: error: ld returned"
        r"|nvcc: (?:command )?not found|Could not find nvcc|(?:No such file|FileNotFoundError).*(?:nvcc|ninja)\b"
        r"|nvcc\S*'?: No such file|nvcc (?:fatal|error) *:|fatal error: [\w/]+\.(?:h|cuh|hpp): No such file"
        r"|Error building extension|CUDA_HOME (?:environment variable )?is not set|Failed to find C compiler"
        r"|BackendCompilerFailed|failed to get the hash of the compiled graph|InductorError|(?:cc1plus"
        r"|cicc|c\+\+|g\+\+)\S*:"
        r" (?:fatal )?(?:error|internal compiler error)|returned non-zero exit status \d+.*(?:nvcc|gcc|ptxas)"
        r"|PTXASError|Internal Triton PTX codegen error|Compilation failed.*nvcc"
        r"|NVRTC(?:_ERROR)?.{0,20}(?:ompilation|COMPILATION)"
        r"|[Uu]nsupported gpu architecture|nvcc.{0,20}not (?:found|in PATH)|ptxas (?:fatal|error)",
        "RuntimeError: Ninja build failed. Ninja output:",
        "flashinfer/jit/cpp_ext.py; torch/utils/cpp_extension.py; torch/_inductor",
    ),
    signature(
        "jit-build/toolchain",
        r"Command '.{0,400}?(?:gcc|g\+\+|c\+\+|clang|nvcc|ptxas|ninja|/cc)\b.*returned non-zero exit status"
        r"|\.(?:cuh?|cpp|hpp?|cc|c)[:(]\d+[:)\d]*:? (?:fatal )?error\b|torch\._dynamo\.exc\.\w+"
        r"|Cannot find (?:the )?(?:CUDA|nvcc|ptxas)\b",
        "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/main.c', '-lcuda']' returned non-zero exit"
        " status 1.",
        "subprocess; gcc, nvcc, ptxas; triton/runtime/build.py",
        confidence=MEDIUM,
    ),
    signature(
        "nan-logits/detected",
        r"NaN in the logits|Detected errors during sampling|probability tensor contains either"
        r"|_zero_fill_draft_kv_for_cached_prefix|(?:[Ll]ogits|hidden[_ ]states) (?:contain|have|are|has) NaN"
        r"|NaN (?:detected|found|values?) in",
        "ValueError: Detected errors during sampling! NaN in the logits.",
        "srt/speculative/spec_utils.py detect_nan; srt/layers/sampler.py; torch.multinomial",
    ),
    signature(
        "graph-ima/capture",
        rf"[Cc]apture (?:[\w ]+ )?(?:cuda|CUDA) ?graphs? failed: .*(?:{_ILLEGAL})",
        "Exception: Capture cuda graph failed: Triton Error [CUDA]: an illegal memory access was encountered",
        "srt/model_executor/cuda_graph_runner.py; sgl-project/sglang#1467",
        versions="0.5.6-0.5.23",
    ),
    signature(
        "graph-ima/in-phase",
        rf"{_ILLEGAL}|device-side assert triggered",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "CUDA runtime errors 700, 710, 716 while graphs are captured",
        phases=GRAPH_PHASES,
        strength=GENERAL,
    ),
    signature(
        "serving-ima/assertion",
        r"Assertion `.*(?:srcIndex|srcSelectDimSize|index out of bounds|< *sizes\[|index <|t >= 0"
        r"|cur_target|\d+ < \d+|index out of bounds).*`"
        r" failed|Assertion `.*` failed.*block: \[|block: \[\d+,.*Assertion `|Out Of Bound Tensor access detected",
        "Indexing.cu:1500: indexSelectSmallIndex: block: [32,0,0], thread: [62,0,0] Assertion `srcIndex <"
        " srcSelectDimSize` failed.",
        "aten/src/ATen/native/cuda; Triton device assertions",
        confidence=MEDIUM,
    ),
    signature(
        "serving-ima/padding",
        r"draft cuda graph replay padding: raw_bs",
        "EAGLE draft cuda graph replay padding: raw_bs=13 graph_bs=16",
        "sgl-project/sglang#25512",
        warning=True,
        strength=GENERAL,
        confidence=MEDIUM,
    ),
    signature(
        "serving-ima/illegal-access",
        rf"{_ILLEGAL}|device-side assert triggered|CUDA_ERROR_ASSERT|CUDA error: unspecified launch failure",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "CUDA runtime errors 700, 710, 716, 719",
        strength=GENERAL,
        confidence=MEDIUM,
    ),
)
