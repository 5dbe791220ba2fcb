"""Leave behind what a server that died leaves: processes of its session that hold GPU memory and do not hear SIGTERM.

    python3 -m tests.gpu.leave_orphans STATE_DIR GPUS [GIB]

The launcher writes a launch record as the process manager does, starts one process a GPU that takes GIB (default 20) of
its memory, and dies. Prints a line per process. Needs torch and a GPU.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "collections"))

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_record import FILE_NAME, LaunchRecord
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

HOLD = """
import signal, sys, time, torch
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = torch.empty(int(float(sys.argv[2]) * 2**30), dtype=torch.uint8, device=f"cuda:{sys.argv[1]}")
print("holding", flush=True)
time.sleep(3600)
"""


def main() -> None:
    """Become the launcher of a session, leave a record and the processes, and end."""
    state_dir, gpus, *rest = sys.argv[1:]
    gib = rest[0] if rest else "20"
    if os.fork():
        os.wait()
        return
    os.setsid()
    pid = os.getpid()
    table = ProcessTable()
    record = LaunchRecord(
        launch_id=str(uuid.uuid4()),
        manager="process",
        unit=None,
        pid=pid,
        session=pid,
        start_ticks=table.start_ticks(pid) or 0,
        boot_id=table.boot_id(),
        started_at=time.time(),
        argv=[sys.executable, "-m", "sglang.launch_server"],
        environment={},
        log_file="/dev/null",
        fingerprint="",
        port=8000,
        owner="",
    )
    Path(state_dir).mkdir(parents=True, exist_ok=True, mode=0o700)
    path = Path(state_dir, FILE_NAME)
    path.write_text(record.to_json())
    path.chmod(0o600)
    holders = [
        subprocess.Popen([sys.executable, "-c", HOLD, str(gpu), gib], stdout=subprocess.PIPE, text=True)
        for gpu in range(int(gpus))
    ]
    for gpu, holder in enumerate(holders):
        said = holder.stdout.readline().strip() if holder.stdout else ""
        print(f"GPU {gpu}: process {holder.pid} {said or 'has failed'} {gib} GiB, session {pid}", flush=True)
    os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
