"""How fast a large log is diagnosed, and in how much memory.

Writes a log of SIZE MB (routine lines of a serving SGLang, some noise, one failure at the end), diagnoses it and prints
MB/s and the peak of the process's memory.

    python tests/bench/bench_diagnose.py [SIZE_MB]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "collections")]

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import diagnose_file  # noqa: E402

HEAD = """\
[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/models/target', speculative_num_draft_tokens=4)
[2026-01-01 00:00:09 TP0] Init torch distributed begin.
[2026-01-01 00:00:10 TP0] Load weight begin. avail mem=94.00 GB
[2026-01-01 00:05:10 TP0] Load weight end. elapsed=300.0 s, type=KimiK25ForConditionalGeneration, avail mem=20.00 GB.
[2026-01-01 00:06:10] The server is fired up and ready to roll!
"""
ROUND = """\
[2026-01-01 00:{minute:02}:{second:02} TP0] Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0, \
token usage: 0.00, #running-req: 0, #queue-req: 0, cuda graph: True, input throughput (token/s): 1.27
[2026-01-01 00:{minute:02}:{second:02} TP0] Decode batch, #running-req: 1, #token: {token}, token usage: 0.01, \
accept len: 2.85, accept rate: 0.62, cuda graph: True, gen throughput (token/s): 71.23, #queue-req: 0
[2026-01-01 00:{minute:02}:{second:02}] INFO:     127.0.0.1:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK
"""
NOISE = (
    "[2026-01-01 00:{minute:02}:{second:02} TP0] KV cache pool is full. Retract requests. #retracted_reqs: {token}\n"
)
TAIL = """\
[2026-01-01 09:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/managers/scheduler.py", line 1, in run_scheduler_process
    scheduler.event_loop_overlap()
ValueError: Detected errors during sampling! NaN in the logits.

[2026-01-01 09:00:01] Received sigquit from a child process. It usually means the child failed.
"""


def write_log(path: Path, megabytes: int) -> int:
    """Write the log and return its size in bytes."""
    rounds = [
        ROUND.format(minute=index // 60 % 60, second=index % 60, token=index, port=40000 + index % 9999)
        + (NOISE.format(minute=index // 60 % 60, second=index % 60, token=index) if index % 10 == 0 else "")
        for index in range(3000)
    ]
    block = "".join(rounds).encode()
    with path.open("wb") as log:
        log.write(HEAD.encode())
        for _ in range(max(1, megabytes * 1_000_000 // len(block))):
            log.write(block)
        log.write(TAIL.encode())
    return path.stat().st_size


def main() -> None:
    """Print one line."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.log")
        size = write_log(path, megabytes)
        begin = time.perf_counter()
        with path.open("rb") as log:
            diagnosis = diagnose_file(log)
        seconds = time.perf_counter() - begin
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    assert diagnosis.failure_class == "nan-logits", diagnosis
    print(f"{size / 1e6:.0f} MB in {seconds:.2f} s: {size / 1e6 / seconds:.0f} MB/s; peak memory {peak_mb:.0f} MB")


if __name__ == "__main__":
    main()
