from __future__ import annotations

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_failures import SIGNATURES, find_cause

STAMP = "[2026-01-01 00:04:42{rank}] "


def crash(message: str, rank: str = " TP0", source: str = "raise ValueError(") -> list[str]:
    return [
        STAMP.format(rank=rank) + "Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/opt/sglang/srt/managers/scheduler.py", line 3049, in run_scheduler_process',
        f"    {source}",
        *message.splitlines(),
        "",
        STAMP.format(rank="") + "Received sigquit from a child process. It usually means the child failed.",
    ]


CONTEXT = (
    "ValueError: Warning: Target model's context_length (262144) is greater than the derived context_length (131072). "
    "This may lead to incorrect model outputs or CUDA errors."
)
OOM = "CUDA out of memory. Tried to allocate 448.00 MiB. GPU 7 has a total capacity of 95.00 GiB"


@pytest.mark.parametrize(
    ("message", "failure_class"),
    [
        (CONTEXT, "draft-context"),
        (
            "torch.distributed.DistNetworkError: failed to listen, name: EADDRINUSE, message: address already in use",
            "port-in-use",
        ),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "kv-oom"),
        (f"Exception: Capture cuda graph failed: {OOM}", "graph-oom"),
        (f"torch.OutOfMemoryError: {OOM}", "kv-oom"),
        ("AttributeError: 'KimiK25' object has no attribute 'set_eagle3_layers_to_capture'", "target-unsupported"),
        ("ValueError: Model KimiK25 does not implement set_eagle3_layers_to_capture, x", "target-unsupported"),
        ("ValueError: Model architectures ['Foo'] are not supported for now. Supported architectures: x", "draft-arch"),
        ("RuntimeError: /m/index.json references 2 shard file(s) missing from /m (incomplete download?)", "shards"),
        ("TypeError: '>' not supported between instances of 'NoneType' and 'int'", "spec-args"),
        ("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", "nccl-system"),
        (
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
            "gpu-occupied",
        ),
        ("Exception: Capture cuda graph failed: CUDA error: no kernel image is available for execution", "kernel-arch"),
        ("Exception: Capture cuda graph failed: CUDA error: an illegal memory access was encountered", "graph-ima"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "serving-ima"),
        (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 9, Hardware limit: 8.",
            "triton-smem",
        ),
        ("RuntimeError: something new", "unknown"),
    ],
)
def test_class_of_an_exception(message: str, failure_class: str) -> None:
    cause = find_cause(crash(message))
    assert cause.failure_class == failure_class
    assert cause.line == message
    assert cause.remedy


@pytest.mark.parametrize(
    ("lines", "failure_class"),
    [
        (["Rank 0 scheduler is dead. Please check if there are relevant logs.", "Exit code: -9"], "host-oom"),
        (["Rank 3 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a"], "host-oom"),
        (["usage: launch_server.py [-h]", "launch_server.py: error: unrecognized arguments: --foo"], "spec-args"),
        (
            ["ERROR:    [Errno 98] error while attempting to bind on address ('::', 8000): address already in use"],
            "port-in-use",
        ),
        (["port 30003 is in use. Waiting for 25 seconds. rpc_port is used by a process already. pid=1"], "port-in-use"),
        (
            ["[2026-01-01 02:55:14 TP5] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"],
            "watchdog",
        ),
    ],
)
def test_failures_without_a_traceback(lines: list[str], failure_class: str) -> None:
    assert find_cause(lines).failure_class == failure_class


def test_phase_decides_what_out_of_memory_means() -> None:
    capture = ["[2026-01-01 00:04:40 TP0] Capture target verify CUDA graph begin. backend=full"]
    message = f"torch.OutOfMemoryError: {OOM}"
    assert find_cause([*capture, *crash(message)]).failure_class == "graph-oom"
    assert find_cause(crash(message)).failure_class == "kv-oom"


def test_the_first_failing_rank_decides() -> None:
    later = crash("RuntimeError: NCCL error: unhandled system error", " TP5")
    assert find_cause(crash(CONTEXT, " TP3") + later).failure_class == "draft-context"
    unknown_first = find_cause(crash("RuntimeError: something new", " TP3") + later)
    assert (unknown_first.failure_class, unknown_first.line) == ("unknown", "RuntimeError: something new")


def test_a_dead_peer_is_no_cause() -> None:
    peer = crash("Exception: Capture cuda graph failed: [../gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1")
    cause = find_cause(peer)
    assert (cause.failure_class, cause.line) == ("unknown", "")
    both = find_cause([*peer, *crash(f"Exception: Capture cuda graph failed: {OOM}", " TP7")])
    assert both.failure_class == "graph-oom"


def test_a_straggler_is_only_believed_when_nothing_else_is_known() -> None:
    message = (
        "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading."
    )
    straggler = crash(message)
    assert find_cause(straggler).failure_class == "load-straggler"
    assert find_cause([*straggler, "Exit code: -9"]).failure_class == "host-oom"
    assert find_cause([*straggler, *crash(CONTEXT)]).failure_class == "draft-context"


def test_the_source_line_of_a_raise_is_not_the_sentence() -> None:
    cause = find_cause(crash("RuntimeError: NCCL error: x", source='raise RuntimeError(f"NCCL error: {error_str}")'))
    assert cause.line == "RuntimeError: NCCL error: x"


def test_a_failing_assertion_without_message_is_known_by_its_source() -> None:
    lines = crash("AssertionError", source="assert not get_global_server_args().disable_chunked_prefix_cache")
    assert find_cause(lines).failure_class == "draft-globals"


def test_the_server_arguments_are_not_searched() -> None:
    noise = "[2026-01-01 00:00:00] server_args=ServerArgs(model='EADDRINUSE CUDA out of memory')"
    assert find_cause([noise]).failure_class == "unknown"
    assert find_cause([]).line == ""


def test_signatures_are_complete() -> None:
    for signature in SIGNATURES:
        assert signature.failure_class
        assert signature.remedy
        assert not signature.remedy.endswith(".")
        assert signature.source
