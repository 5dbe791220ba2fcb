"""How much processor time `controller watch` uses, against a simulated node that serves two streams.

The live view runs on a terminal of its own. Once the call of Ansible at the start is over (it is printed apart) the
processor time of the watching process and of the children that it has waited for is taken over a window. What runs on
the target (the log's follower and nvidia-smi) runs on this machine here and is printed apart too.

    python tests/bench/bench_watch.py [--seconds 60] [--fail-above 2.0]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from tests.integration.simulated_node import SimulatedNode  # noqa: E402

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
START_S, SETTLE_S = 180.0, 10.0
FOLLOWER = b"compile(sys.stdin"  # on the command line of what follows the log
STREAMS = 2
LOAD = """\
import json, sys, urllib.request
body = json.dumps({"text": "Hello", "sampling_params": {"max_new_tokens": 256, "ignore_eos": True}}).encode()
while True:
    request = urllib.request.Request(sys.argv[1] + "/generate", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=60).read()
"""


def cpu_s(pid: int) -> float:
    """Processor time of a process and of the children that it has waited for, in seconds; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(value) for value in fields[11:15]) / TICKS_PER_S


def children(pid: int) -> list[int]:
    """The processes that a process has started, whichever of its threads did."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def wait_for_follower(pid: int) -> list[int]:
    """Wait until Ansible has ended and the log is followed; return the follower, the only child that is left."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        found = children(pid)
        with contextlib.suppress(OSError):
            if len(found) == 1 and FOLLOWER in Path(f"/proc/{found[0]}/cmdline").read_bytes():
                return found
        time.sleep(0.2)
    sys.exit(f"the live view had no follower of the log after {START_S:.0f} s; nothing was measured")


def drain(descriptor: int) -> None:
    """Read what the live view draws, as a terminal does."""
    with contextlib.suppress(OSError):
        while os.read(descriptor, 65536):
            pass


def measure(node: SimulatedNode, seconds: float) -> dict[str, float]:
    """Watch the node for a while; return shares of one core in percent, and the seconds of the start."""
    terminal, other_end = pty.openpty()
    watch = subprocess.Popen(
        [sys.executable, "-m", "controller", "watch"],
        cwd=REPOSITORY,
        env=node.environment | {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        start_new_session=True,
    )
    os.close(other_end)
    threading.Thread(target=drain, args=(terminal,), daemon=True).start()
    try:
        followers = wait_for_follower(watch.pid)
        time.sleep(SETTLE_S)
        start_s = cpu_s(watch.pid)
        before, target_before = cpu_s(watch.pid), sum(map(cpu_s, followers))
        began = time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        used, target_used = cpu_s(watch.pid) - before, sum(map(cpu_s, followers)) - target_before
        os.write(terminal, b"q")
        code = watch.wait(20)
    finally:
        if watch.poll() is None:
            watch.kill()
            watch.wait()
        os.close(terminal)
    if code != 0:
        sys.exit(f"the live view ended with {code}; nothing was measured")
    return {
        "seconds": round(took, 1),
        "watch_percent": round(100 * used / took, 3),
        "target_percent": round(100 * target_used / took, 3),
        "start_cpu_s": round(start_s, 2),
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--fail-above", type=float, default=2.0, help="percent of one core")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        node = SimulatedNode(Path(folder) / "node")
        inventory_port = json.loads((node.directory / "node.json").read_text())["port"]
        node.port = inventory_port  # the one that the inventory knows, and so the live view
        done = node.play("deploy.yml", {"sglang_server_enable_metrics": True, "preflight_enabled": False})
        if done.returncode:
            sys.exit(f"the simulated server did not start:\n{done.stdout[-2000:]}")
        loads = [
            subprocess.Popen([sys.executable, "-c", LOAD, f"http://127.0.0.1:{node.port}"]) for _ in range(STREAMS)
        ]
        try:
            found = measure(node, options.seconds)
        finally:
            for load in loads:
                load.kill()
                load.wait()
            node.stop()
    print(
        f"watch: {found['watch_percent']:.2f} % of a core over {found['seconds']:.0f} s (one look a second, "
        f"{STREAMS} simulated streams); start with Ansible: {found['start_cpu_s']:.1f} s of processor time"
    )
    print(
        f"on the target, here this machine: {found['target_percent']:.2f} % (follower of the log, stand-in nvidia-smi)"
    )
    return int(found["watch_percent"] > options.fail_above)


if __name__ == "__main__":
    sys.exit(main())
