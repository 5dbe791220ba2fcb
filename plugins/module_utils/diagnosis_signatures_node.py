"""Signatures of NCCL, of the GPU and its driver, and of processes that hang or died because of others."""

from __future__ import annotations

from typing import Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import (
    FOLLOWS,
    GENERAL,
    LOW,
    MEDIUM,
    Signature,
    signature,
)

SIGNATURES: Tuple[Signature, ...] = (
    signature(
        "xid/kernel-log",
        r"NVRM: Xid|\bXid \(PCI:|RC watchdog: GPU is probably locked|krcWatchdog|GPU has fallen off the bus"
        r"|GPU recovery action changed|_kgspRpcGspEvent|GSP RM heartbeat timed out|Timeout waiting for RPC from GSP"
        r"|GPU is lost|rm_init_adapter failed|RmInitAdapter failed|GPU recovery action|NV_ERR_\w+"
        r"|uvm encountered global fatal error|GPU lost from the bus",
        "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVIDIA kernel driver",
    ),
    signature(
        "xid/driver",
        r"NVRM: .*(?:\b[Ff]ailed|Assertion|[Tt]imeout|lost)",
        "NVRM: rpcRmApiAlloc_GSP: GspRmAlloc failed: hClient=0xc1d1a616; status=0x00000062",
        "NVIDIA kernel driver",
        confidence=MEDIUM,
    ),
    signature(
        "xid/link",
        r"aer_uncor_status|AER: .*(?:Uncorrect|Fatal)|PCIe Bus Error: severity=Uncorrect|Surprise Down"
        r"|SXid|Unable to determine the device handle for GPU|uncorrectable ECC|[Uu]ncorrectable NVLink"
        r"|double[- ]bit ECC|GPU requires reset|cudaErrorECCUncorrectable",
        "pcieport 0000:00:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        "Linux drivers/pci/pcie/aer.c; nvidia-smi; CUDA runtime error 214",
    ),
    signature(
        "mig/identifier",
        r"invalid literal for int\(\) with base 10: '?(?:MIG|\W*b'MIG)-"
        r"|[\"' =,]MIG-(?:GPU-)?[0-9a-f]{8}-.*(?:Error|invalid)"
        r"|MIG (?:mode )?(?:is )?(?:enabled|not supported|devices? (?:is|are) not)"
        r"|^\s*MIG \d+g\.\d+gb\b|[Dd]evice.{0,20}\bMIG-[0-9a-f]{8}-.*not (?:found|supported)",
        "ValueError: invalid literal for int() with base 10: 'MIG-00000000-0000-0000-0000-000000000000'",
        "CUDA_VISIBLE_DEVICES with MIG identifiers; vllm-project/vllm#7211",
    ),
    signature(
        "mig/not-supported",
        r"Cuda failure (?:\d+ )?'operation not supported'|CUDA error: operation not supported|cudaErrorNotSupported",
        "init.cc:426 NCCL WARN Cuda failure 'operation not supported'",
        "NCCL init.cc on a MIG or vGPU slice; sgl-project/sglang#25670",
        confidence=MEDIUM,
    ),
    signature(
        "shm-small/nccl",
        r"failed to extend (?:/dev/shm/)?nccl|creating shared memory segment|posix_fallocate failed"
        r"|[Nn]o space left on device.*(?:/dev/shm|shm)|(?:/dev/shm|shm_open|shm segment|shared memory object)"
        r".*[Nn]o space left"
        r"|attaching to shared memory segment /dev/shm/nccl|insufficient shared memory \(shm\)"
        r"|ftruncate.*No space left|out of shared memory|unable to (?:open|write to|mmap|allocate) (?:file "
        r"|shared memory).*(?:/?torch_|shm)"
        r"|shared_memory.*No space left|No space left on device: ?'?/(?:psm_|torch_|sem)",
        "misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-AbCdEf to 9637892 bytes,"
        " error: No space left"
        " on device (28)",
        "NCCL misc/shmutils.cc; torch dataloader",
    ),
    signature(
        "shm-small/bus-error",
        r"Fatal Python error: Bus error|\bBus error\b|SIGBUS|exit ?code:? ?-7\b",
        "Fatal Python error: Bus error",
        "Linux: a page of /dev/shm that does not fit any more is written to",
        confidence=MEDIUM,
    ),
    signature(
        "shm-small/no-space-in-nccl",
        r"NCCL WARN .*[Nn]o space left on device",
        "NCCL WARN Call to ftruncate failed : No space left on device",
        "NCCL misc/shmutils.cc",
    ),
    signature(
        "nccl-system/warning",
        r"NCCL WARN .*(?:[Bb]ootstrap ?: ?no socket|[Nn]o socket interface|No route to host|ibv_\w+ failed|Call to ibv_"
        r"|Failed to CUDA calloc|maxSharedMem|shmutils.*Cuda failure|Could not find|No interface found|NET/)"
        r"|socketStartConnect: Connect to .*failed|ibv_reg_mr\w* failed|NCCL WARN .*(?:Duplicate GPU|IpcGetMemHandle"
        r"|IpcOpenMem"
        r"|Invalid config|Mismatched|graph file|Topology|XML)|Call to ibv_reg_mr",
        "misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<40001> failed : No route to host",
        "NCCL misc/socket.cc, misc/ibvwrap.cc",
    ),
    signature(
        "nccl-system/error",
        r"NCCL error(?!_str)(?:: (?!remote)| in(?!.*remote process))|nccl(?:System|UnhandledCuda|Internal"
        r"|Invalid\w+)Error|DistBackendError(?!.*remote process)"
        r"|unhandled (?:system|cuda) error",
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "srt/distributed/device_communicators/pynccl_wrapper.py; torch NCCLUtils.cpp",
        versions="0.5.6-0.5.23",
        strength=GENERAL,
        confidence=MEDIUM,
    ),
    signature(
        "watchdog/step",
        r"[Ww]atchdog timeout \(self\.watchdog_timeout=[\d.]+(?:, self\.soft=False)?\)",
        "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
        "srt/utils/watchdog.py; srt/managers/scheduler.py",
        versions="with a name from 0.5.7, without up to 0.5.6",
        strength=GENERAL,
    ),
    signature(
        "watchdog/collective",
        r"Watchdog caught collective operation timeout|NCCL watchdog thread terminated"
        r"|watchdog got stuck for \d+ seconds",
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE) ran for 600000"
        " milliseconds before timing out.",
        "torch ProcessGroupNCCL.cpp",
        strength=GENERAL,
        confidence=MEDIUM,
    ),
    signature(
        "peer-died/last-error",
        r"^(?:Net : Connection closed by remote peer|\w*: ?Call to (?:recv|send) from .* failed"
        r"|NET/\w+ .*Got completion from peer)",
        "Net : Connection closed by remote peer box<50260>",
        "NCCL net.cc: what stands below 'Last error' of a NCCL error",
        strength=FOLLOWS,
        confidence=LOW,
    ),
    signature(
        "peer-died/connection",
        r"Connection closed by peer|Connection reset by peer|ncclRemoteError|remote process exited"
        r"|Connection was likely closed|[Bb]roken pipe.*(?:TCPStore|gloo)|gloo.*(?:[Bb]roken pipe|Socket Timeout)"
        r"|NCCL error.*remote process|TCPStore.*(?:[Bb]roken pipe|recvValue failed)|recvValue failed"
        r"|DistStoreError: Timed out|client socket has timed out|waiting for clients\. \d+/\d+ clients joined",
        "Exception: Capture cuda graph failed: [../third_party/gloo/gloo/transport/tcp/pair.cc:534]"
        " Connection closed by"
        " peer [127.0.0.1]:40001",
        "gloo transport/tcp/pair.cc; torch TCPStore; NCCL",
        strength=FOLLOWS,
        confidence=LOW,
    ),
)
