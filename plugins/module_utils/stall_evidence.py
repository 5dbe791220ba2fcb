"""What a launch that stands still is doing: its GPUs, where its processes wait, and its schedulers' Python stacks."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import FORMAT
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_command import (
    CommandNotFoundError,
    CommandTimeoutError,
    run_bounded,
)

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_records import ProcessFacts
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

COMMAND_TIMEOUT_S = 10.0
STACK_LINES = 40
"""Lines kept of each scheduler's stack."""
STACKS_TIME_S = 15.0
"""Seconds after which no further scheduler is looked into."""
QUERY = "--query-gpu=index,utilization.gpu,power.draw,power.limit,memory.used"
BUSY_PERCENT = 90.0
IDLE_POWER_FRACTION = 0.35
"""Kernels that spin in a collective use 25 to 140 W of a 600 W card at 100 % utilisation (public reports)."""
SCHEDULER_NAME = "sglang::schedul"
"""The kernel keeps 15 characters of what setproctitle sets ("sglang::scheduler_TP0", managers/scheduler.py)."""
_FIELDS = ("index", "utilization_percent", "power_w", "power_limit_w", "memory_used_mib")


def collect(members: Sequence[ProcessFacts], table: ProcessTable, nvidia_smi: str) -> Dict[str, Any]:
    """Return the evidence; what cannot be had is left out, with the reason under `notes`.

    Args:
        members: living processes of the launch.
        table: the process table they are from.
        nvidia_smi: the program, "" to leave the GPUs out.
    """
    notes: List[str] = []
    gpus = _gpus(nvidia_smi, notes) if nvidia_smi else []
    return {
        "gpus": gpus,
        "spinning": spinning(gpus),
        "processes": [_process(process, table) for process in members],
        "stack": _stack(members, notes),
        "notes": notes,
    }


def spinning(gpus: Sequence[Dict[str, Optional[float]]]) -> bool:
    """Say whether every GPU is busy at low power: a collective that waits for a peer, not work."""
    return bool(gpus) and all(
        (gpu["utilization_percent"] or 0.0) >= BUSY_PERCENT
        and gpu["power_w"] is not None
        and bool(gpu["power_limit_w"])
        and gpu["power_w"] < IDLE_POWER_FRACTION * (gpu["power_limit_w"] or 0.0)
        for gpu in gpus
    )


def parse_gpus(text: str) -> List[Dict[str, Optional[float]]]:
    """Parse the answer to `QUERY`; a value that the driver does not give is None, a line of another form is skipped."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == len(_FIELDS):
            found.append({name: _number(fields[place]) for place, name in enumerate(_FIELDS)})
    return found


def summary(evidence: Dict[str, Any]) -> str:
    """Return the evidence in one clause."""
    words = []
    gpus = evidence["gpus"]
    if gpus:
        use = [gpu["utilization_percent"] for gpu in gpus if gpu["utilization_percent"] is not None]
        power = [gpu["power_w"] for gpu in gpus if gpu["power_w"] is not None]
        if use:
            words.append(f"GPUs {min(use):.0f} to {max(use):.0f} % busy")
        if power:
            words.append(f"{min(power):.0f} to {max(power):.0f} W")
    schedulers = [p for p in evidence["processes"] if p["name"].startswith(SCHEDULER_NAME)]
    states = sorted({f"{p['state']} in {p['wait_channel']}" if p["wait_channel"] else p["state"] for p in schedulers})
    if states:
        words.append(f"schedulers in state {', '.join(states)}")
    return ", ".join(words)


def stopped_processes(evidence: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return the processes that a signal or a debugger holds (state T or t)."""
    return [process for process in evidence["processes"] if process["state"] in {"T", "t"}]


def _number(text: str) -> Optional[float]:
    try:
        return float(text)
    except ValueError:
        return None


def _gpus(nvidia_smi: str, notes: List[str]) -> List[Dict[str, Optional[float]]]:
    answer = _run([nvidia_smi, QUERY, FORMAT], "nvidia-smi", notes)
    return parse_gpus(answer) if answer is not None else []


def _process(process: ProcessFacts, table: ProcessTable) -> Dict[str, Any]:
    threads = table.threads(process.pid)
    leader = next((thread for thread in threads if thread.tid == process.pid), None)
    return {
        "pid": process.pid,
        "name": process.label,
        "state": leader.state if leader else process.state,
        "wait_channel": leader.wait_channel if leader else "",
        "threads_in_d_state": sum(thread.state == "D" for thread in threads),
    }


def _stack(members: Sequence[ProcessFacts], notes: List[str]) -> List[str]:
    """Return the schedulers' stacks as py-spy tells them; py-spy comes with SGLang, beside its Python.

    Every rank is looked into: the one that waits elsewhere than the others is the one they wait for.
    """
    schedulers = [process for process in members if process.name.startswith(SCHEDULER_NAME)]
    if not schedulers:
        notes.append("no scheduler process to look into")
        return []
    program = _py_spy(schedulers[0].pid)
    if program is None:
        notes.append("py-spy is not installed")
        return []
    lines: List[str] = []
    begin = time.monotonic()
    for done, scheduler in enumerate(schedulers):
        if time.monotonic() - begin > STACKS_TIME_S:
            notes.append(f"py-spy took too long for {len(schedulers) - done} of {len(schedulers)} schedulers")
            break
        answer = _run([program, "dump", "--nonblocking", "--pid", str(scheduler.pid)], "py-spy", notes)
        lines += answer.splitlines()[:STACK_LINES] if answer is not None else []
    return lines


def _py_spy(pid: int) -> Optional[str]:
    try:
        python = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode("utf-8", errors="replace")
        beside = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        python, beside = "", []
    folders = [str(Path(python).parent)] if python.startswith("/") else []
    folders += [entry[12:].decode(errors="replace") + "/bin" for entry in beside if entry.startswith(b"VIRTUAL_ENV=")]
    return shutil.which("py-spy", path=":".join(folders)) if folders and _has(folders) else shutil.which("py-spy")


def _has(folders: Sequence[str]) -> bool:
    return any(Path(folder, "py-spy").is_file() for folder in folders)


def _run(command: Sequence[str], name: str, notes: List[str]) -> Optional[str]:
    try:
        done = run_bounded(command, COMMAND_TIMEOUT_S)
    except CommandNotFoundError as error:
        notes.append(f"{name} cannot be run ({str(error).removeprefix(f'{command[0]}: ')})")
        return None
    except CommandTimeoutError:
        notes.append(f"{name} did not answer within {COMMAND_TIMEOUT_S:g} s")
        return None
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        notes.append(f"{name} failed ({words[0][:200] if words else done.returncode})")
        return None
    return done.stdout
