"""A timed all-reduce over all GPUs of the server, through the serving interpreter and in the server's environment.

That `nvidia-smi topo -p2p` says OK proves nothing: peer copies that hang show only when they are made, and with as many
ranks as the server has. When it hangs it is tried once more without peer copies, which tells whether they are at fault.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from typing import IO, Any, Dict, List, Mapping, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.detached_process import base_environment
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis import diagnose_text
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_classes import runbook
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_allreduce_program import (
    PROGRAM,
    SKIP_STATUS,
    TIMED,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_check import Check, failed, passed, unknown
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.python_site import answer_mark

NAME = "all-reduce"
NCCL, GLOO = "nccl", "gloo"
"""Backends; gloo needs no GPU and is for a rehearsal."""
WITHOUT_PEERS = "NCCL_P2P_DISABLE"
SECOND_LIMIT_S = 60.0
"""Seconds that the second try may take at most; by then torch is in the page cache."""
GRACE_S = 2.0
"""Seconds that the other ranks get to say why, after one has failed."""
_POLL_S = 0.05
# What SGLang sets itself when it is not given (srt/entrypoints/engine.py _set_envs_and_config, 0.5.9-0.5.23), and
# NCCL's own word on what went wrong.
_OF_SGLANG = {
    "NCCL_CUMEM_ENABLE": "0",
    "NCCL_NVLS_ENABLE": "0",
    "CUDA_DEVICE_MAX_CONNECTIONS": "8",
    "NCCL_DEBUG": "WARN",
}
_RUNBOOK = runbook("p2p-hang")
_CONSEQUENCES = ("peer-died", "unknown", "healthy")


@dataclasses.dataclass(frozen=True)
class _Ended:
    """How one rank ended. `status` is None for one that had to be ended."""

    rank: int
    status: Optional[int]
    lines: List[str]
    answer: Optional[Dict[str, Any]]

    @property
    def failed(self) -> bool:
        return self.status not in (None, 0)


def check_allreduce(
    python: str, ranks: int, environment: Mapping[str, Any], limit_s: float, *, backend: str = NCCL
) -> Check:
    """Run it; every rank is ended when `limit_s` seconds have passed.

    Args:
        python: the serving interpreter.
        ranks: as many as the server has, its tensor parallelism.
        environment: what the server is given on top of the base environment of every launch.
        limit_s: seconds, the import of torch included.
        backend: `NCCL`, or `GLOO` to rehearse without GPUs.
    """
    if ranks < 2:
        return unknown(NAME, "one GPU needs no all-reduce")
    given = {name: str(value) for name, value in environment.items()}
    try:
        ended = _run(python, ranks, given, limit_s, backend)
        if not _hangs(ended) or given.get(WITHOUT_PEERS) == "1":
            return _verdict(ended, limit_s, given)
        again = _run(python, ranks, {**given, WITHOUT_PEERS: "1"}, min(limit_s, SECOND_LIMIT_S), backend)
    except OSError as error:
        return unknown(NAME, f"cannot run {python}: {error.strerror}")
    return _verdict(ended, limit_s, given, without_peers=again)


def _run(python: str, ranks: int, environment: Mapping[str, str], limit_s: float, backend: str) -> List[_Ended]:
    variables = {
        **base_environment(python),
        **_OF_SGLANG,
        **environment,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "WORLD_SIZE": str(ranks),
    }
    running: List[_Rank] = []
    try:
        for rank in range(ranks):
            own = {**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            running.append(_Rank(rank, [python, "-c", PROGRAM, backend, json.dumps(TIMED)], own))
        _wait(running, limit_s)
        return [one.ended() for one in running]
    finally:
        for one in running:
            one.end()


class _Rank:
    """One process of the all-reduce. It writes to files: a full pipe would look like a hanging copy."""

    def __init__(self, rank: int, argv: List[str], environment: Dict[str, str]) -> None:
        self.rank = rank
        self._output = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - end() closes it
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - as above
        try:
            self.process = subprocess.Popen(
                argv,
                cwd="/",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError:
            self._close()
            raise

    def ended(self) -> _Ended:
        """How it stands now, with all that it said: standard output (NCCL's) before standard error (Python's)."""
        output, errors = _lines(self._output), _lines(self._errors)
        answers = [line[len(answer_mark()) :] for line in output if line.startswith(answer_mark())]
        said = [line for line in output if not line.startswith(answer_mark())] + errors
        return _Ended(self.rank, self.process.poll(), said, json.loads(answers[-1]) if answers else None)

    def end(self) -> None:
        """Kill it and whatever it started, if it still runs."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=2)
        self._close()

    def _close(self) -> None:
        self._output.close()
        self._errors.close()


def _wait(running: List[_Rank], limit_s: float) -> None:
    """Until all have ended, one has failed and the others had time to say why, or the time is up."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        states = [one.process.poll() for one in running]
        if all(state is not None for state in states):
            return
        if any(states):
            deadline = min(deadline, time.monotonic() + GRACE_S)
        time.sleep(_POLL_S)


def _hangs(ended: List[_Ended]) -> bool:
    return not any(one.failed for one in ended) and any(one.status is None and one.answer is None for one in ended)


def _verdict(
    ended: List[_Ended],
    limit_s: float,
    environment: Mapping[str, str],
    without_peers: Optional[List[_Ended]] = None,
) -> Check:
    skipped = [one for one in ended if one.status == SKIP_STATUS]
    if skipped:
        return unknown(NAME, _last(skipped[0].lines))
    if any(one.failed for one in ended):
        return _failed(ended)
    if _hangs(ended):
        return _hanging(ended, limit_s, environment, without_peers)
    if any(one.answer is None for one in ended):
        silent = next(one.rank for one in ended if one.answer is None)
        return failed(NAME, f"rank {silent} ended without a result", "run it with NCCL_DEBUG=INFO", runbook=_RUNBOOK)
    return passed(NAME, _measured([one.answer for one in ended if one.answer is not None]))


def _failed(ended: List[_Ended]) -> Check:
    """Tell of the rank that names a cause, not of one that lost it."""
    broken = [one for one in ended if one.failed]
    found = [(one, diagnose_text(one.lines)) for one in broken]
    one, diagnosis = next(
        ((one, diagnosis) for one, diagnosis in found if diagnosis.failure_class not in _CONSEQUENCES), found[0]
    )
    if diagnosis.failure_class in _CONSEQUENCES:
        return failed(NAME, f"rank {one.rank} failed: {_last(one.lines)}", "run it with NCCL_DEBUG=INFO")
    detail = f"rank {one.rank} failed ({diagnosis.failure_class}): {diagnosis.cause[:300]}"
    return failed(NAME, detail, diagnosis.remedy, runbook=diagnosis.runbook)


def _hanging(
    ended: List[_Ended], limit_s: float, environment: Mapping[str, str], without_peers: Optional[List[_Ended]]
) -> Check:
    waiting = [str(one.rank) for one in ended if one.status is None]
    nccl = " ".join(f"{name}={value}" for name, value in environment.items() if name.startswith("NCCL_"))
    detail = (
        f"ranks {', '.join(waiting)} of {len(ended)} did not end within {limit_s:g} s ({nccl or 'no NCCL variables'})"
    )
    if without_peers is None:
        remedy = "look for processes on the GPUs and at the host's kernel log; peer copies are not at fault"
        return failed(NAME, detail, remedy, runbook=_RUNBOOK)
    answers = [one.answer for one in without_peers if one.answer is not None]
    if len(answers) == len(ended):
        detail += f"; with {WITHOUT_PEERS}=1 it ends: {_measured(answers)}"
        remedy = f"peer copies are broken: set {WITHOUT_PEERS}=1 and disable custom all-reduce, then see IOMMU and ACS"
        return failed(NAME, detail, remedy, runbook=_RUNBOOK)
    detail += f"; with {WITHOUT_PEERS}=1 neither"
    return failed(NAME, detail, "look at the host's kernel log, then at IOMMU and ACS", runbook=_RUNBOOK)


def _measured(answers: List[Dict[str, Any]]) -> str:
    """Return the slowest rank's figures in words; gigabytes are 10^9 bytes."""
    first = answers[0]
    small, large = (max(answer[name]["seconds"] for answer in answers) for name in ("small", "large"))
    size = first["large"]["bytes"]
    algorithm_gb_s = size / large / 1e9
    bus_gb_s = algorithm_gb_s * 2 * (first["world"] - 1) / first["world"]
    library = f"NCCL {first['nccl']}" if first["nccl"] else first["backend"]
    peers = {True: ", peer access", False: ", no peer access", None: ""}[first["peer"]]
    return (
        f"{first['world']} ranks, {library}{peers}: {first['small']['bytes'] / 1024:g} KiB in {small * 1e6:.1f} us, "
        f"{size / 2**20:g} MiB in {large * 1e3:.2f} ms ({algorithm_gb_s:.1f} GB/s, {bus_gb_s:.1f} GB/s on the bus)"
    )


def _last(lines: List[str]) -> str:
    """Return the last line that is no mere warning of torch about the way it ended."""
    told = [line for line in lines if "destroy_process_group() was not called" not in line]
    return told[-1][:300] if told else "it said nothing"


def _lines(file: IO[str]) -> List[str]:
    file.seek(0)
    return [line.strip() for line in file if line.strip()]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
