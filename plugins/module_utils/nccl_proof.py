"""Prove that variables reach the processes that SGLang spawns, in os.environ and in C's getenv, which NCCL reads.

The interpreter is started with none of the variables set. It spawns a child (multiprocessing, start method spawn, as
SGLang does), which spawns a grandchild; all three report. For a launch that leaves variables out the same is done with
the request to leave them out, and none of the three may have one.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.nccl_startup_files import UNSET
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.python_site import answer_mark, ask

PROCESSES = ("parent", "child", "grandchild")
_READERS = ("os.environ", "getenv")

# exec is a builtin, so that a spawned process finds it without a module of ours on its path.
_SOURCE = f"""
import ctypes, json, multiprocessing, os, sys
def read(name):
    value = getenv(name.encode())
    return None if value is None else value.decode(errors="surrogateescape")
getenv = ctypes.CDLL(None).getenv
getenv.restype, getenv.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
names, processes, source = json.loads(argument)
report = {{name: {{"os.environ": os.environ.get(name), "getenv": read(name)}} for name in names}}
answer = {{"process": processes[0], "no_site": bool(sys.flags.no_site), "values": report}}
print({answer_mark()!r} + json.dumps(answer), flush=True)
if processes[1:]:
    argument = json.dumps([names, processes[1:], source])
    process = multiprocessing.get_context("spawn").Process(target=exec, args=(source, {{"argument": argument}}))
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""
_START = "import json, sys; exec(json.loads(sys.argv[1])[2], {'argument': sys.argv[1]})"


def prove(python: str, variables: Mapping[str, str], timeout_s: float = 60.0) -> List[Dict[str, Any]]:
    """Reports of the interpreter and of the two processes below it, in that order.

    Raises:
        InterpreterError: the interpreter or one of the processes failed, or they took longer than `timeout_s` seconds.
    """
    argument = json.dumps([list(variables), list(PROCESSES), _SOURCE])
    return ask(python, _START, arguments=[argument], without=[*variables, UNSET], timeout_s=timeout_s)


def prove_left_out(python: str, names: Sequence[str], timeout_s: float = 60.0) -> List[str]:
    """Start the three processes as a launch without the variables `names`; one sentence for each that is there anyway.

    Raises:
        InterpreterError: as `prove`.
    """
    argument = json.dumps([list(names), list(PROCESSES), _SOURCE])
    reports = ask(
        python, _START, arguments=[argument], without=names, more={UNSET: ",".join(names)}, timeout_s=timeout_s
    )
    return still_set(reports, names)


def still_set(reports: List[Dict[str, Any]], names: Sequence[str]) -> List[str]:
    """One sentence for each variable that a process has although the launch leaves it out."""
    sentences = []
    for name in names:
        for report in reports:
            values = [value for value in report["values"][name].values() if value is not None]
            if values:
                sentences.append(
                    f"{name} is not left out in the {report['process']}: something else sets it to {values[0]!r} at "
                    "Python's start; look for another .pth file or a wrapper."
                )
                break
    return sentences


def summarize(reports: List[Dict[str, Any]], variables: Mapping[str, str]) -> Dict[str, Dict[str, Any]]:
    """For each variable: what was expected, what each process saw, and whether it arrived everywhere."""
    by_process = {report["process"]: report["values"] for report in reports}
    summary: Dict[str, Dict[str, Any]] = {}
    for name, expected in variables.items():
        seen = {process: by_process.get(process, {}).get(name) for process in PROCESSES}
        arrived = all(
            values is not None and all(values[reader] == expected for reader in _READERS) for values in seen.values()
        )
        summary[name] = {"expected": expected, "arrived": arrived, **seen}
    return summary


def failures(summary: Mapping[str, Mapping[str, Any]], reports: List[Dict[str, Any]], file: str) -> List[str]:
    """One sentence for each variable that did not arrive, with the likely reason."""
    no_site = any(report["no_site"] for report in reports)
    sentences = []
    for name, entry in summary.items():
        if entry["arrived"]:
            continue
        process = next(process for process in PROCESSES if not _is_right(entry, process))
        seen = entry[process]
        value = seen and next((seen[reader] for reader in _READERS if seen[reader] != entry["expected"]), None)
        sentences.append(
            f"{name} did not arrive in the {process}: {_reason(process, seen, value, file, no_site=no_site)}"
        )
    return sentences


def _is_right(entry: Mapping[str, Any], process: str) -> bool:
    seen = entry[process]
    return seen is not None and all(seen[reader] == entry["expected"] for reader in _READERS)


def _reason(process: str, seen: object, value: object, file: str, *, no_site: bool) -> str:
    if seen is None:
        return "that process did not report."
    if value is not None:
        return f"something else sets it to {value!r} at Python's start; look for another .pth file or a wrapper."
    if no_site:
        return f"this Python is started with -S and does not run {file}; give the interpreter itself, not a wrapper."
    if process == "parent":
        return f"this Python does not run {file}; another start-up file may have failed before it."
    return "it is there in the process above, so that something removes it in between; look for another start-up file."
