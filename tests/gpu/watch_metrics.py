"""Record SGLang's counters while a sweep goes through its launches, until ended by a signal.

    python3 -m tests.gpu.watch_metrics URL FILE [EVERY_S]

Asks ``/metrics`` every 0.1 s and writes what has changed; while no server answers it waits. Reading costs the server
some milliseconds of its HTTP process, none of its scheduler.
"""

from __future__ import annotations

import contextlib
import http.client
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.metrics_record import Sample, line, parse


def ask(url: str) -> Sample | None:
    """Return the counters now, None when nobody answers."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=2) as answer:  # noqa: S310 - the operator's address
            return parse(answer.read().decode(), time.time())
    except (OSError, ValueError, http.client.HTTPException):
        return None


def main() -> None:
    """Record until interrupted."""
    url, file, *rest = sys.argv[1:]
    every_s = float(rest[0]) if rest else 0.1
    last = written = None
    with Path(file).open("a") as stream, contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(every_s)
            sample = ask(url)
            if sample is None or (last and (sample.counts, sample.accept_length) == (last.counts, last.accept_length)):
                last = sample and last
                continue
            last = sample
            if written is None or sample != written:
                stream.write(line(sample))
                stream.flush()
                written = sample


if __name__ == "__main__":
    main()
