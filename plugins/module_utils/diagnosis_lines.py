"""Take away what terminals, collectors and container runtimes put around a log line (pure)."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import List, Tuple

LONGEST_LINE = 4000
"""Characters of a line that are looked at; the rest of a longer one is left out."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1f]")
# SGLang's own prefix, in the forms of its versions: [2026-01-01 00:00:00 DP0 TP1], [00:00:00 TP1], [gpu_id=0].
_STAMP = re.compile(
    r"\[(?P<time>(?:\d{4}-\d\d-\d\d |\d\d-\d\d )?\d\d:\d\d:\d\d"
    r"|gpu_id=\d+)(?:[.,]\d{1,6})?(?P<rank>(?: [A-Z]{2,4}\d+)*)\] ?"
    r"(?:\[(?:ERROR|WARNING|INFO|DEBUG|CRITICAL)\] ?)?"
)
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_COLLECTED = re.compile(rf"^\W{{0,2}}({_ISO})")
_PREFIXES = (
    re.compile(r"^[\w./-]+\s*\| ?"),  # docker compose
    re.compile(r"^\([\w .:-]+pid=[^)]*\) ?"),  # Ray
    re.compile(r"^\[pod/[^\]]+\] ?"),  # kubectl logs --prefix
    re.compile(rf"^\[?{_ISO}\]? (?:std(?:out|err) [FP] )?(?:\S+ >> )?"),  # CRI, kubectl and docker with timestamps
    re.compile(r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w.@:/-]+(?:\[\d+\])?: ?"),  # syslog, journald
    re.compile(r"^(?:ERROR|WARNING|INFO|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[?[\w./]+:\d+\] ?)?"),  # vLLM
    re.compile(r"^(?:ERROR|CRITICAL): {2,4}"),
    # logging's usual formats: "<time> - module - INFO - …", "<time> | ERROR | module | …"
    re.compile(r"^[-|] (?:[\w.]+ [-|] )?(?:ERROR|WARNING|INFO|CRITICAL) ?[-|:] (?:[\w.]+ [-|] )?"),
    re.compile(r"^(?:ERROR|WARNING|CRITICAL):[\w.]+:"),  # logging.basicConfig
    re.compile(r"^\d{1,4}: (?=\[|\S|  )"),  # srun --label
    re.compile(r"^\[(?=[A-Z]{2,4}\d+)(?:[A-Z]{2,4}\d+ ?)+\] "),  # a stamp whose time was taken away
    re.compile(r"^\[\d+,\d+\]<std(?:out|err)>:"),  # mpirun
)
_RANK_PREFIX = re.compile(r"^\[rank(\d+)\]: ?")
_REPEATED = re.compile(r" \[repeated \d+x across cluster\]$")
_LONGEST_PREFIX = 200


@dataclasses.dataclass(frozen=True)
class LogLine:
    """One line.

    Attributes:
        number: in the log, counted from 1.
        message: without prefixes; a traceback's source lines keep their indentation.
        time: SGLang's own stamp as text, "" without one. Compares in order within one form.
        collected: the collector's stamp as text, "" without one.
        rank: "TP0", "DP0 TP0", "" when the line carries none.
    """

    number: int
    message: str
    time: str = ""
    rank: str = ""
    collected: str = ""


def read_lines(number: int, raw: bytes) -> List[LogLine]:
    """Return the lines in one line of a file: several when a progress bar wrote over itself."""
    text = raw[: 4 * LONGEST_LINE].decode("utf-8", errors="replace")
    pieces = [piece for piece in text.split("\r") if piece.strip()]
    return [parse_line(number, piece) for piece in pieces]


def parse_line(number: int, text: str) -> LogLine:
    """Return one line without what was put around it."""
    text = _ANSI.sub("", _unpack_json(text)).rstrip()
    collector = _COLLECTED.match(text)
    collected = collector.group(1) if collector else ""
    stamp = _STAMP.search(text, 0, _LONGEST_PREFIX)
    if stamp is not None:
        message, rank = text[stamp.end() :], stamp.group("rank").strip()
        # "[2026-01-01T00:00:00] job >> (pid=1) [2026-01-01 00:00:00 TP7] …": the innermost is SGLang's.
        inner = _STAMP.match(message)
        if inner is not None:
            message, rank = message[inner.end() :], inner.group("rank").strip() or rank
        return LogLine(number, _REPEATED.sub("", message)[:LONGEST_LINE], stamp.group("time"), rank, collected)
    message, rank = _strip_prefixes(text)
    return LogLine(number, _REPEATED.sub("", message)[:LONGEST_LINE], "", rank, collected)


def _unpack_json(text: str) -> str:
    """Return the message of Docker's json-file log and of journald's JSON."""
    if not text.startswith('{"'):
        return text
    try:
        content = json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        return text
    for key in ("log", "MESSAGE", "message", "msg", "line", "textPayload", "body"):
        if isinstance(content, dict) and isinstance(content.get(key), str):
            return str(content[key])
    return text


def _strip_prefixes(text: str) -> Tuple[str, str]:
    rank = ""
    changed = True
    while changed:
        changed = False
        match = _RANK_PREFIX.match(text)
        if match is not None:
            rank, text, changed = f"TP{match.group(1)}", text[match.end() :], True
        for prefix in _PREFIXES:
            shorter = prefix.sub("", text, count=1)
            if shorter != text:
                text, changed = shorter, True
    return text, rank
