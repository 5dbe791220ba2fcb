"""Read a log of any size and keep the lines that can matter: one pass over its bytes, bounded memory.

A log that served for weeks consists of decode, prefill and access lines. One regular expression steps over them without
making a Python object of any; only every other line is looked at. Their figures are sampled, once a mebibyte.
"""

from __future__ import annotations

import collections
import re
from typing import IO, TYPE_CHECKING, Deque, Dict, List, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis import diagnose
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_lines import LogLine, parse_line, read_lines
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_serving import Acceptance

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import Diagnosis

CHUNK_BYTES = 1024 * 1024
SAMPLE_BYTES = 4 * 1024
WHOLE_BYTES = 256 * 1024
"""Of the begin of a log every line is kept; what is larger than this is filtered."""
KEPT_LINES = 3000
"""Lines kept from the begin of a later launch, and as many from the end of the log."""
LONGEST_LINE_BYTES = 64 * 1024
KNOWN_SHAPES = 20_000

# Steps over the routine lines: "[<stamp>] Decode batch", "[<stamp>] Prefill batch", "[<stamp>] INFO:  <client> - …".
_EVERY = re.compile(rb"\n")
_UNUSUAL = re.compile(rb'\n(?![^\]\n]{0,120}\] (?:Decode batch|Prefill batch|INFO:     [\d.:]+ - "))')
_ROUTINE = re.compile(rb'\] (?:Decode batch|Prefill batch|INFO:     [\d.:]+ - ")')
# A line without any of these says nothing: bits of failures' words, of phases' begins, of frames and of heads.
_ANCHORS: Tuple[bytes, ...] = tuple(
    anchor.encode()
    for anchor in [
        "rror",
        "xception",
        "raceback",
        "ssert",
        "ailed",
        "WARN",
        "NVRM",
        "Xid",
        "NaN",
        "egin.",
        "begin",
        "end.",
        "sigquit",
        "SIGQUIT",
        "atchdog",
        "memory",
        "Memory",
        "rank",
        "exit",
        "code",
        "Exit",
        "killed",
        "Killed",
        "OOM",
        "oom",
        "KV",
        "fired",
        "up",
        "Uvicorn",
        "server_args",
        "shards",
        "draft",
        "graph",
        "context",
        "accept",
        "too",
        "long",
        "sglang",
        "SGLang",
        "not",
        "unable",
        "denied",
        "nvcc",
        "ninja",
        "MIG",
        "space",
        "missing",
        "port",
        "max_tot",
        "File",
        "EADDR",
        "capture",
        "Captur",
        "GPU",
        "PCIe",
        "AER",
        "Server",
        "load_",
        "init_",
        "event_loop",
        "run_batch",
        "undefined",
        "illegal",
        "resource",
        "peer",
        "defunct",
        "library",
        "kernel",
        "loading",
        "length",
        "larger",
        "nvidia-smi",
        "mismatch",
        "CONFIG_MAPPING",
        "state_dict",
        "Weight",
        "Init",
        "vocab",
        "speculative",
        "EAGLE",
        "eagle",
        "topk",
        "required",
        "ACSCtl",
        "IO_PAGE",
        "DMAR",
        "NCCL",
        "NVML",
        "CUDA",
        "cuda",
        "/dev/nvidia",
        "all_reduce",
        "reset",
        "signal",
        "version",
        "exceed",
        "pynccl",
    ]
)
_DIGITS = b"0123456789"
_NEW_LAUNCH = b"server_args="
_STARTED = re.compile(rb"Load weight begin|Traceback|Init (?:torch|parallel)")


def diagnose_file(log: IO[bytes], begin: bytes = b"") -> Diagnosis:
    """Return why the last launch failed whose log this is.

    Args:
        log: open for reading bytes, a pipe will do.
        begin: what was read of it already.

    Raises:
        OSError: it cannot be read.
    """
    reader = LogReader()
    reader.feed(begin + log.read(WHOLE_BYTES))
    for chunk in iter(lambda: log.read(CHUNK_BYTES), b""):
        reader.feed(chunk)
    return reader.result()


class LogReader:
    """Takes a log in as chunks of bytes, cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""
        self._number = 1
        self._taken = 0
        # As (number, bytes): most of them leave the tail again before anybody reads them.
        self._head: List[Tuple[int, bytes]] = []
        self._tail: Deque[Tuple[int, bytes]] = collections.deque(maxlen=KEPT_LINES)
        self._acceptance = Acceptance()
        self._shapes: Dict[bytes, bool] = {}
        self._first_time: Optional[str] = None
        self._started = False
        self._utf16 = False
        self._begun = False

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes in."""
        if not self._begun:
            self._begun = True
            self._utf16 = chunk.startswith((b"\xff\xfe", b"\xfe\xff"))
        if self._utf16:
            # Written by a Windows terminal. Its text is ASCII with a zero byte beside each character.
            chunk = chunk.replace(b"\0", b"").lstrip(b"\xff\xfe")
        data = self._rest + chunk
        cut = data.rfind(b"\n") + 1
        if cut == 0 and len(data) > LONGEST_LINE_BYTES:
            # No line end at all: a progress bar, or no log. Its begin is kept as a line.
            cut = len(data)
        self._rest = data[cut:]
        if cut:
            self._take(data[:cut])

    def result(self) -> Diagnosis:
        """Return the diagnosis of what was taken in."""
        if self._rest:
            rest, self._rest = self._rest, b""
            self._take(rest)
        lines: List[LogLine] = []
        for number, raw in (*self._head, *self._tail):
            lines += read_lines(number, raw)
        return diagnose(lines, self._acceptance)

    def _take(self, data: bytes) -> None:
        text = b"\n" + data
        first, number, counted = self._number, self._number, 1
        whole = self._taken < WHOLE_BYTES
        self._taken += len(data)
        for found in (_EVERY if whole else _UNUSUAL).finditer(text):
            begin = found.end()
            end = text.find(b"\n", begin)
            raw = text[begin:end] if end >= 0 else text[begin:]
            if raw and (whole or self._is_interesting(raw)):
                number += text.count(b"\n", counted, begin)
                counted = begin
                self._keep(number, raw[:LONGEST_LINE_BYTES], whole=whole)
        self._number = number + text.count(b"\n", counted)
        self._sample(data, first, whole=whole)

    def _is_interesting(self, raw: bytes) -> bool:
        # Lines that differ in figures only are looked at once.
        shape = raw[:400].translate(None, _DIGITS)
        known = self._shapes.get(shape)
        if known is None:
            if len(self._shapes) >= KNOWN_SHAPES:
                self._shapes.clear()
            known = any(anchor in raw for anchor in _ANCHORS) or raw[:1].isspace()
            self._shapes[shape] = known
        return known

    def _sample(self, data: bytes, number: int, *, whole: bool) -> None:
        """Take decode lines in: all of a small log, the last ones of every mebibyte of a large one."""
        if not whole:
            data = data[-SAMPLE_BYTES:]
            data = data[data.find(b"\n") + 1 :]
            number = self._number - data.count(b"\n")
        if _ROUTINE.search(data) is None:
            return
        for raw in data.split(b"\n"):
            if b"Decode batch" in raw:
                line = parse_line(number, raw[:4000].decode("utf-8", errors="replace"))
                self._acceptance.take(line.number, line.message)
            elif b'" 200 OK' in raw:
                self._acceptance.answered(number)
            number += 1

    def _keep(self, number: int, raw: bytes, *, whole: bool) -> None:
        if self._first_time is None or _NEW_LAUNCH in raw:
            self._look_at_launch(number, raw)
        self._started = self._started or _STARTED.search(raw) is not None
        if whole or len(self._head) < KEPT_LINES:
            self._head.append((number, raw))
        else:
            self._tail.append((number, raw))

    def _look_at_launch(self, number: int, raw: bytes) -> None:
        """Forget an earlier launch in the same file: only the last one counts (the first one, newest first)."""
        line = parse_line(number, raw.decode("utf-8", errors="replace"))
        if self._first_time is None and line.time:
            self._first_time = line.time
        if not line.message.startswith("server_args="):
            return
        if self._started and line.time >= (self._first_time or ""):
            self._head.clear()
            self._tail.clear()
            self._started = False
            self._acceptance = Acceptance()
        self._acceptance.take(line.number, raw.decode("utf-8", errors="replace")[raw.find(_NEW_LAUNCH) :])
