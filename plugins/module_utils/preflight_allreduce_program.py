"""What each rank of the timed all-reduce runs: plain torch, so that the serving interpreter can run it.

Standard output and error are read by `preflight_allreduce`. The measuring is done as NCCL's own tests do it: bytes over
time, and times 2(n-1)/n for what each link carries, which does not depend on the number of ranks
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

from __future__ import annotations

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.python_site import answer_mark

SKIP_STATUS = 77
"""Exit status of a rank that cannot say anything: no torch, too few GPUs."""
SMALL_ELEMENTS = 7168
"""One token's hidden state of a large model: what a decode step reduces, twice a layer. 14 KiB in bfloat16."""
LARGE_ELEMENTS = 32 << 20
"""64 MiB in bfloat16: what a long prefill reduces."""
TIMED = {"small": (SMALL_ELEMENTS, 100), "large": (LARGE_ELEMENTS, 20)}

PROGRAM = f"""
import json, os, sys, time

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    print(f"torch cannot be imported: {{error}}", file=sys.stderr)
    sys.exit({SKIP_STATUS})

backend, timed = sys.argv[1], json.loads(sys.argv[2])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
on_gpu = backend == "nccl"
if on_gpu and torch.cuda.device_count() < world:
    print(f"torch sees {{torch.cuda.device_count()}} GPUs, {{world}} are wanted", file=sys.stderr)
    sys.exit({SKIP_STATUS})
device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
kind = torch.bfloat16 if on_gpu else torch.float32


def settle():
    if on_gpu:
        torch.cuda.synchronize(device)


def check_sum(elements):
    # Exact in bfloat16 up to 22 ranks.
    data = torch.full((elements,), float(rank + 1), dtype=kind, device=device)
    dist.all_reduce(data)
    settle()
    wanted = world * (world + 1) / 2
    wrong = int((data != wanted).sum())
    if wrong:
        raise SystemExit(f"wrong sum: {{wrong}} of {{elements}} elements, where {{wanted}} is right")


def seconds_each(elements, repeats):
    data = torch.zeros(elements, dtype=kind, device=device)
    for _ in range(5):
        dist.all_reduce(data)
    settle()
    dist.barrier()
    if not on_gpu:
        begin = time.perf_counter()
        for _ in range(repeats):
            dist.all_reduce(data)
        return (time.perf_counter() - begin) / repeats
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    # The GPU sleeps while Python queues the calls: what is timed is the GPU's part, as in a CUDA graph.
    getattr(torch.cuda, "_sleep", lambda cycles: None)(50_000_000)
    begin.record()
    for _ in range(repeats):
        dist.all_reduce(data)
    end.record()
    settle()
    return begin.elapsed_time(end) / 1000 / repeats


def main():
    if on_gpu:
        torch.cuda.set_device(device)
        dist.init_process_group(backend, device_id=device)
    else:
        dist.init_process_group(backend)
    answer = {{"world": world, "backend": backend, "nccl": "", "peer": None}}
    if on_gpu:
        answer["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        answer["peer"] = all(torch.cuda.can_device_access_peer(rank, other) for other in range(world) if other != rank)
    for name, (elements, repeats) in timed.items():
        check_sum(elements)
        answer[name] = {{"bytes": elements * kind.itemsize, "seconds": seconds_each(elements, repeats)}}
    print("\\n{answer_mark()}" + json.dumps(answer), flush=True)
    dist.barrier()
    dist.destroy_process_group()


try:
    main()
except BaseException as error:
    # No tidy end: the other ranks may be gone, and waiting for them would look like a hanging copy.
    name = "" if isinstance(error, SystemExit) else f"{{type(error).__name__}}: "
    print(f"{{name}}{{error}}", file=sys.stderr, flush=True)
    os._exit(1)
"""
