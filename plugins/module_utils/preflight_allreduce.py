"""A timed all-reduce over all GPUs of the server, through the serving interpreter and with the server's NCCL variables.

That `nvidia-smi topo -p2p` says OK proves nothing: peer copies that hang show only when they are made, and with as many
ranks as the server has.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from typing import IO, Any, Dict, List, Mapping

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_check import Check, failed, passed, unknown
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.python_site import answer_mark

NAME = "all-reduce"
SKIP_STATUS = 77
_POLL_S = 0.05
PROGRAM = f"""
import json, os, sys, time
try:
    import torch, torch.distributed as dist
except ImportError as error:
    print(f"torch cannot be imported: {{error}}", file=sys.stderr); sys.exit({SKIP_STATUS})
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if torch.cuda.device_count() < world:
    print(f"torch sees {{torch.cuda.device_count()}} GPUs, {{world}} are wanted", file=sys.stderr)
    sys.exit({SKIP_STATUS})
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
answer = {{"world": world, "nccl": ".".join(map(str, torch.cuda.nccl.version()))}}
for name, elements in (("small_us", 7168), ("large_ms", 32 << 20)):
    data = torch.full((elements,), float(rank + 1), dtype=torch.bfloat16, device="cuda")
    for turn in range(6):
        if turn == 1:
            torch.cuda.synchronize(); started = time.perf_counter()
        data.fill_(float(rank + 1)); dist.all_reduce(data)
    torch.cuda.synchronize()
    answer[name] = round((time.perf_counter() - started) / 5 * (1e6 if name == "small_us" else 1e3), 3)
    wanted = world * (world + 1) / 2
    if not bool((data == wanted).all()):
        print(f"wrong sum: {{data.flatten()[0].item()}} where {{wanted}} is right", file=sys.stderr); sys.exit(1)
if rank == 0:
    print("{answer_mark()}" + json.dumps(answer), flush=True)
dist.destroy_process_group()
"""


def check_allreduce(python: str, ranks: int, environment: Mapping[str, Any], limit_s: float) -> Check:
    """Run it; every rank is ended when `limit_s` seconds have passed."""
    if ranks < 2:
        return unknown(NAME, "one GPU needs no all-reduce")
    variables = {
        **os.environ,
        **{name: str(value) for name, value in environment.items()},
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "WORLD_SIZE": str(ranks),
    }
    ranked: List[_Rank] = []
    try:
        for rank in range(ranks):
            ranked.append(_Rank(python, {**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)}))  # noqa: PERF401 - those that have started must be ended when one fails
        _wait(ranked, limit_s)
        return _verdict(ranked, limit_s, environment)
    except OSError as error:
        return unknown(NAME, f"cannot run {python}: {error.strerror}")
    finally:
        for one in ranked:
            one.end()


class _Rank:
    """One process of the all-reduce. It writes to files: a full pipe would look like a hanging copy."""

    def __init__(self, python: str, environment: Dict[str, str]) -> None:
        self.output = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - end() closes it
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - as above
        self.process = subprocess.Popen(
            [python, "-c", PROGRAM],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.errors,
            start_new_session=True,
        )

    def end(self) -> None:
        """Kill it and whatever it started, if it still runs."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=2)
        self.output.close()
        self.errors.close()


def _wait(ranked: List[_Rank], limit_s: float) -> None:
    """Until all have ended, one has failed, or the time is up."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        states = [one.process.poll() for one in ranked]
        if all(state is not None for state in states) or any(states):
            return
        time.sleep(_POLL_S)


def _verdict(ranked: List[_Rank], limit_s: float, environment: Mapping[str, Any]) -> Check:
    for rank, one in enumerate(ranked):
        if one.process.poll() == SKIP_STATUS:
            return unknown(NAME, _last(one.errors))
        if one.process.poll():
            return failed(NAME, f"rank {rank} failed: {_last(one.errors)}", "run it with NCCL_DEBUG=INFO")
    waiting = [str(rank) for rank, one in enumerate(ranked) if one.process.poll() is None]
    if waiting:
        nccl = " ".join(f"{key}={value}" for key, value in environment.items() if key.startswith("NCCL_"))
        return failed(
            NAME,
            f"ranks {', '.join(waiting)} of {len(ranked)} did not end within {limit_s:g} s "
            f"({nccl or 'no NCCL variables'})",
            "try with NCCL_P2P_DISABLE=1; when that works, peer copies are broken: see IOMMU and ACS",
        )
    ranked[0].output.seek(0)
    lines = [line for line in ranked[0].output if line.startswith(answer_mark())]
    if not lines:
        return failed(NAME, "rank 0 ended without a result", "run it with NCCL_DEBUG=INFO")
    answer = json.loads(lines[-1][len(answer_mark()) :])
    return passed(
        NAME,
        f"{answer['world']} ranks, NCCL {answer['nccl']}: 14 KiB in {answer['small_us']} us, "
        f"64 MiB in {answer['large_ms']} ms",
    )


def _last(errors: IO[str]) -> str:
    errors.seek(0)
    lines = [line.strip() for line in errors if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
