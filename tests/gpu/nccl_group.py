"""Start a NCCL process group of RANKS by spawn in this interpreter and sum something up.

    python3 -m tests.gpu.nccl_group RANKS

What NCCL logs on the way (NCCL_DEBUG, NCCL_DEBUG_FILE) tells what it was given. Prints "sum right" or fails.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys

import torch
from torch import distributed


def rank_main(rank: int, ranks: int, port: int) -> None:
    """Be one rank; exits with 1 when the sum is wrong."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    for elements in (7168, 32 << 20):
        data = torch.full((elements,), float(rank + 1), device="cuda")
        distributed.all_reduce(data)
        if data[-1].item() != ranks * (ranks + 1) / 2:
            print(f"rank {rank}: sum wrong, {data[-1].item()}", flush=True)
            sys.exit(1)
    distributed.destroy_process_group()


def main() -> int:
    """Spawn the ranks, as SGLang spawns its schedulers."""
    ranks = int(sys.argv[1])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=rank_main, args=(rank, ranks, port), daemon=True) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    codes = [process.exitcode for process in processes]
    print(f"{ranks} ranks: {'sum right' if set(codes) == {0} else f'exit codes {codes}'}")
    return 0 if set(codes) == {0} else 1


if __name__ == "__main__":
    raise SystemExit(main())
