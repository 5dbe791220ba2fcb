"""Read an SGLang log: whole lines out of raw bytes, and the phase of the start-up that they tell of.

The wordings are those of SGLang 0.5.6 to 0.5.23 (`srt/model_executor/model_runner.py`, `srt/managers/scheduler.py`,
`srt/entrypoints/http_server.py`), old and new ones side by side, because a reader bound to one wording goes blind with
the next release. Pure: bytes and lines in, lines and phases out.
"""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Callable, Dict, Iterable, List, Optional, Tuple

# In the order of SGLang 0.5.14 and later. Up to 0.5.13 the draft is loaded after the target's graphs.
PHASES = (
    "starting",
    "distributed_init",
    "weights",
    "draft_weights",
    "memory_pool",
    "target_graphs",
    "draft_graphs",
    "warmup",
    "serving",
)

# What ends a line: a progress bar overwrites itself with \r, and each state of it counts as a line.
_LINE_END = re.compile(rb"\r\n|\n|\r")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# What log collectors put in front of a line: "sglang-1  | ", "(SGLangEngine pid=12) ", "ERROR 01-01 00:17:48 [a.py] ".
_COLLECTOR_PREFIX = re.compile(
    r"^(?:[\w.-]+\s*\| ?|\([\w ]+pid=[^)]*\) ?|ERROR: {2,}"
    r"|(?:ERROR|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[\w.:]+\] ?)?)"
)
_COLLECTOR_SUFFIX = re.compile(r" \[repeated \d+x across cluster\]$")
_STAMP = re.compile(r"^\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<rank>(?: [A-Z]+\d+)*)\] ?")
# tqdm's: "Capturing batches (bs=8):  12%|█▎  | 1/8 [00:01<00:12,  1.74s/it]", "… 0% Completed | 0/1 [00:00<?, ?it/s]".
_PROGRESS = re.compile(r"\d%(?:\|[^|]*\|| Completed \|) *[\d.]+\w?/[\d.]+\w? \[[^\]]*\]\s*$")
# A bar is as wide as a terminal; a line may be much longer.
_LONGEST_PROGRESS = 500
# A line longer than this is not a message; SGLang's own server_args line has about 12 kB.
MAX_LINE_BYTES = 64 * 1024


class LineAssembler:
    """Turns chunks of bytes, cut anywhere, into lines without escape sequences; invalid UTF-8 becomes U+FFFD."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> List[str]:
        """Return the lines that this chunk completes."""
        data = self._rest + chunk
        # A \r at the very end may be the first half of \r\n.
        held = b""
        if data.endswith(b"\r"):
            data, held = data[:-1], b"\r"
        pieces = _LINE_END.split(data)
        self._rest = pieces.pop() + held
        if len(self._rest) > MAX_LINE_BYTES:
            pieces.append(self._rest)
            self._rest = b""
        return [clean_line(piece) for piece in pieces if piece]

    @property
    def pending(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._rest)

    def rest(self) -> List[str]:
        """Return what has no line end yet, as a line; the end of a log whose writer died."""
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        return [clean_line(rest)] if rest else []


def clean_line(raw: bytes) -> str:
    """Decode one line and take terminal escape sequences and collectors' decoration away."""
    text = _ANSI.sub("", raw[:MAX_LINE_BYTES].decode("utf-8", errors="replace")).rstrip()
    return strip_collector(text)


def strip_collector(line: str) -> str:
    """Take away what Docker, Ray and vLLM's logger put around a line."""
    return _COLLECTOR_SUFFIX.sub("", _COLLECTOR_PREFIX.sub("", line, count=1))


@dataclasses.dataclass(frozen=True)
class Stamp:
    """The prefix `[2026-11-30 06:22:26 DP0 TP0] ` of a line.

    Attributes:
        epoch_s: local time of the target in seconds since the epoch, resolution 1 s.
        rank: "DP0 TP0", "TP0", or "" for the main process and for servers on one GPU.
    """

    epoch_s: float
    rank: str


def parse_stamp(line: str) -> Tuple[Optional[Stamp], str]:
    """Split a line into its prefix and its message; without a prefix the stamp is None."""
    match = _STAMP.match(line)
    if match is None:
        return None, line
    try:
        moment = time.mktime(time.strptime(match.group("time"), "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None, line
    return Stamp(moment, match.group("rank").strip()), line[match.end() :]


@dataclasses.dataclass
class Phase:
    """One phase, in seconds since the launch; `ended_s` is None while it lasts."""

    name: str
    started_s: float
    ended_s: Optional[float] = None


# Message -> phase that begins with it. Weights are not in here: the second load of a rank is the draft's.
_PHASE_BEGINS = (
    (re.compile(r"Init (?:torch distributed|parallel|nccl) begin\."), "distributed_init"),
    (re.compile(r"KV Cache is allocated|Memory pool end\."), "memory_pool"),
    (re.compile(r"Capture draft .*\bbegin\b", re.IGNORECASE), "draft_graphs"),
    (re.compile(r"Capture (?!draft)[\w ]*cuda graph begin\b", re.IGNORECASE), "target_graphs"),
    (re.compile(r"max_total_num_tokens=\d+, chunked_prefill_size="), "warmup"),
    (re.compile(r"Started server process \[\d+\]|Uvicorn running on http"), "warmup"),
    # The second one on machines that only take part (entrypoints/engine.py, node_rank >= 1).
    (re.compile(r"The server is fired up and ready to roll!|Dummy health check server started"), "serving"),
)
_WEIGHTS_BEGIN = re.compile(r"Load weight begin\.")
_WEIGHTS_END = re.compile(r"Load weight end\.")
_DRAFT_TYPE = re.compile(r"type=\w*(?:[Ee]agle|EAGLE|NextN|MTP)")
# "Loading safetensors checkpoint shards:  12% Completed | 3/24 [...]", "Multi-thread loading shards: ...": one bar of
# the first rank, drawn again for each shard.
_SHARDS = re.compile(r"oading [\w -]*shards:.*\| (?P<done>\d+)/(?P<total>\d+) \[")
_PORT_OPEN = re.compile(
    r"Uvicorn running on http|The server is fired up and ready to roll!|Dummy health check server started"
)

_FATAL = re.compile(
    r"Scheduler hit an exception"
    r"|Received sigquit from a child process|SIGQUIT received\."
    r"|Subprocess \w+ \(pid=\d+\) crashed with exit code"
    r"|Rank \d+ scheduler (?:is dead|died during initialization)"
    r"|Initialization failed\. warmup error:"
    r"|[Ww]atchdog timeout \(self\.watchdog_timeout=[\d.]+(?:, self\.soft=False)?\)"
    r"|error while attempting to bind on address"
    r"|(?:launch_server\.py|sglang serve|sglang): error: "
)

# "[2026-11-30 06:22:26] INFO:     127.0.0.1:51234 - "GET /health HTTP/1.1" 503 Service Unavailable", uvicorn's.
_ASKED = re.compile(r'INFO: +\S+ - "GET /\S* HTTP/[\d.]+" \d{3}\b')


def tells_of_a_question(line: str) -> bool:
    """Say whether a line tells only that somebody asked for health, metrics or settings: no work of the server."""
    return '"GET /' in line and _ASKED.search(line) is not None


def is_fatal(line: str) -> bool:
    """Say whether SGLang does not survive what this line tells."""
    return _FATAL.search(line) is not None


class PhaseTracker:
    """Follows the phases of one launch, line by line.

    The phase is the furthest that any rank has reached; each phase is entered once, so the draft's own memory pool does
    not lead back. Times come from the stamps in the log (resolution 1 s); a line without one counts as its predecessor.

    Args:
        started_at: begin of the launch, seconds since the epoch.
        speculative: whether a draft model is loaded after the target.
    """

    def __init__(self, started_at: float, *, speculative: bool) -> None:
        self._started_at = started_at
        self._speculative = speculative
        self._loads: Dict[str, int] = {}
        self._now_s = 0.0
        self.phases: List[Phase] = [Phase("starting", 0.0)]
        self.port_open = False
        self.fatal = False
        self.shards: Optional[Tuple[int, int]] = None
        """Files of weights that are loaded in the present phase, and how many there are; None in a phase without."""

    @property
    def phase(self) -> str:
        """Name of the present phase."""
        return self.phases[-1].name

    def feed(self, line: str, now_epoch_s: float, unstepped: Callable[[float], float] = float) -> None:
        """Take one line into account.

        Args:
            line: a line as `LineAssembler` returns it.
            now_epoch_s: when it was read; stamps outside of launch and now are another clock's and are ignored.
            unstepped: takes a step of the clock since the launch out of a stamp.
        """
        stamp, message = parse_stamp(line)
        moment_s = unstepped(stamp.epoch_s) if stamp is not None else 0.0
        if self._started_at - 1 <= moment_s <= now_epoch_s + 1:
            self._now_s = max(self._now_s, moment_s - self._started_at)
        self.advance(message, stamp.rank if stamp else "")

    def advance(self, message: str, rank: str) -> None:
        """Take one message into account, at the time of the line before.

        Args:
            message: a line without its prefix.
            rank: "DP0 TP0", "TP0" or "".
        """
        if not self.fatal and is_fatal(message):
            self.fatal = True
        if _PORT_OPEN.search(message):
            self.port_open = True
        shards = _SHARDS.search(message) if "shards" in message else None
        if shards is not None:
            self.shards = int(shards.group("done")), int(shards.group("total"))
        phase = self._phase_of(message, rank)
        if phase is not None and all(seen.name != phase for seen in self.phases) and self.phase != "serving":
            moment = round(self._now_s, 3)
            self.phases[-1].ended_s = moment
            self.phases.append(Phase(phase, moment))
            self.shards = None

    def _phase_of(self, message: str, rank: str) -> Optional[str]:
        if _WEIGHTS_BEGIN.search(message):
            self._loads[rank] = self._loads.get(rank, 0) + 1
            return "weights" if self._loads[rank] == 1 else "draft_weights"
        if _WEIGHTS_END.search(message):
            loads_wanted = 2 if self._speculative else 1
            if rank not in self._loads:
                # The log begins in the middle of a start.
                self._loads[rank] = 2 if _DRAFT_TYPE.search(message) else 1
                return "weights" if self._loads[rank] < loads_wanted else "memory_pool"
            return "memory_pool" if self._loads.get(rank, 0) >= loads_wanted else None
        for pattern, phase in _PHASE_BEGINS:
            if pattern.search(message):
                return phase
        return None


def without_progress(lines: Iterable[str]) -> List[str]:
    """Return the lines with the last state alone of each progress bar; one with words behind it stays."""
    kept: List[str] = []
    after_progress = False
    for line in lines:
        is_progress = _PROGRESS.search(line[-_LONGEST_PROGRESS:]) is not None
        if is_progress and after_progress:
            kept[-1] = line
        else:
            kept.append(line)
        after_progress = is_progress
    return kept
