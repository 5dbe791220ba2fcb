"""Signatures of GPUs that do not reach each other: collectives that hang, and SGLang's own all-reduce that fails."""

from __future__ import annotations

from typing import Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import (
    GENERAL,
    LOW,
    MEDIUM,
    NO_PHASE,
    Signature,
    signature,
)

SIGNATURES: Tuple[Signature, ...] = (
    signature(
        "custom-ar/kernel",
        r"custom_all_reduce(?:_\w+)?\.cuh?:\d+\W.{0,160}(?:invalid (?:argument|resource handle|device)|not supported"
        r"|unknown error|mapping|peer access)",
        "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:455 'invalid argument'",
        "sgl-kernel csrc/allreduce, sglang jit_kernel custom_all_reduce.cuh, vllm csrc; vllm-project/vllm#47751",
        versions="SGLang 0.5.5-0.5.23",
        confidence=MEDIUM,
    ),
    signature(
        "custom-ar/handles",
        r"(?:open_mem_handle|get_graph_buffer_ipc_meta|register_graph_buffers|share_graph_inputs|cudaIpcOpenMemHandle"
        r"|cudaIpcGetMemHandle).{0,80}(?:[Ee]rror|[Ff]ailed|invalid)"
        r"|^(?:\w+\.)*\w+(?:Error|Exception)\b.*CustomAll[Rr]educe",
        "RuntimeError: cudaIpcOpenMemHandle failed: invalid argument",
        "srt/distributed/device_communicators/custom_all_reduce.py and custom_all_reduce_v2.py;"
        " sgl-project/sglang#25649",
        confidence=MEDIUM,
    ),
    signature(
        "p2p-hang/first-collective",
        r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=[0-3],",
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1,"
        " NumelOut=1, Timeout(ms)=600000) ran for 600054 milliseconds before timing out.",
        "torch ProcessGroupNCCL.cpp: not one collective ever completed",
        confidence=MEDIUM,
        phases=("starting", "distributed_init", NO_PHASE),
    ),
    signature(
        "p2p-hang/communicator",
        r"^\s+(?:__init__|warmup\w*) \(\S*pynccl\.py:\d+\)",
        "    __init__ (sglang/srt/distributed/device_communicators/pynccl.py:117)",
        "py-spy of a scheduler that waits in the communicator's first all-reduce; sgl-project/sglang#3516",
        strength=GENERAL,
        confidence=MEDIUM,
    ),
    signature(
        "p2p-hang/iommu-fault",
        r"AMD-Vi: Event logged \[IO_PAGE_FAULT|DMAR: \[DMA (?:Read|Write)\b|DMAR: DRHD: handling fault status",
        "nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0023 address=0x1000 flags=0x0020]",
        "Linux drivers/iommu: the IOMMU refuses what one GPU writes to another",
        confidence=MEDIUM,
    ),
    signature(
        "p2p-hang/access-control",
        r"ACSCtl:.*(?:ReqRedir|CmpltRedir)\+",
        "ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-",
        "lspci -vvv of a PCIe bridge that sends peer traffic through the root complex; NVIDIA/nccl#2079",
        strength=GENERAL,
        confidence=LOW,
    ),
    signature(
        "p2p-hang/after-init",
        r"NCCL INFO (?:ncclCommInitRank\w* )?comm 0x\w+ rank \d+ nranks (?:[2-9]|\d\d+) .*Init COMPLETE",
        "box:41:41 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9"
        " - Init COMPLETE",
        "NCCL init.cc; local-inference-lab/rtx6kpro#15: connections are made, the first collective never ends",
        confidence=LOW,
        phases=("starting", "distributed_init", NO_PHASE),
        only_at_the_end=True,
    ),
)
