"""What deploying over SSH costs beside the server's own loading: each task by its duration, on the lab (root).

First deploy: from left-over processes on all GPUs and a draft whose context length clashes, to a healthy server.
Second deploy: nothing to change. Both with the settings of ``inventory/``, the server is simulated.

Ansible's time is the wall time of ``ansible-playbook`` less the server's own loading. The loading is what the task that
watches the launch took longer than in the second deploy, where the server serves already and the task only looks.

    python tests/bench/bench_deploy_over_ssh.py [--rounds 1] [--fail-above 20 12]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "collections")]

from tests.lab.errors import LabUnavailableError  # noqa: E402
from tests.lab.holding import held_lab  # noqa: E402
from tests.lab.playbook import PlaybookOutcome, run_playbook  # noqa: E402

if TYPE_CHECKING:
    from tests.lab.running import RunningLab

WATCH = "sglang_ops.eagle3.sglang_health"
EXIT_UNAVAILABLE = 77


def deploy(lab: RunningLab) -> tuple[PlaybookOutcome, float]:
    """Run deploy.yml; return its outcome and wall time in seconds."""
    with tempfile.TemporaryDirectory(prefix="bench-deploy-") as directory:
        began = time.perf_counter()
        outcome = run_playbook(lab, REPOSITORY / "deploy.yml", Path(directory))
        wall_s = time.perf_counter() - began
    if outcome.return_code:
        raise SystemExit(outcome.output)
    return outcome, wall_s


def watching_s(outcome: PlaybookOutcome) -> float:
    """Return how long the task that watches the launch took, in seconds."""
    return sum(task.duration_s for task in outcome.tasks if task.action == WATCH)


def print_tasks(title: str, outcome: PlaybookOutcome) -> None:
    """Print the tasks that ran, the longest first."""
    print(f"{title}: {len(outcome.tasks)} tasks")
    for task in sorted(outcome.tasks, key=lambda task: -task.duration_s):
        print(f"  {task.duration_s:6.2f} s  {task.task}")


def one_round(lab: RunningLab, *, show: bool) -> tuple[float, float]:
    """Deploy twice on a fresh container; return Ansible's time of both, in seconds."""
    lab.reset_container()
    holders = lab.container("hold-gpu", "--orphan", "--mib", "76000")
    if holders.returncode:
        raise SystemExit(f"no GPU memory could be held: {holders.stderr}")
    changed, changed_wall_s = deploy(lab)
    unchanged, unchanged_wall_s = deploy(lab)
    if [task.task for task in unchanged.tasks if task.result.get("changed")]:
        raise SystemExit("the second deploy has changed something")
    loading_s = watching_s(changed) - watching_s(unchanged)
    if show:
        print_tasks("deploy from zombies and a clash", changed)
        print(f"  the server's own loading (simulated): {loading_s:.2f} s")
        print_tasks("deploy again", unchanged)
    return changed_wall_s - loading_s, unchanged_wall_s


def main() -> int:
    """Run the rounds and print the medians; 1 when they are above the bars, 77 where no lab can run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--fail-above", type=float, nargs=2, metavar=("DEPLOY_S", "UNCHANGED_S"))
    options = parser.parse_args()
    try:
        with held_lab(f"bench-{os.getpid()}") as lab:
            rows = [one_round(lab, show=number == 0) for number in range(options.rounds)]
    except LabUnavailableError as error:
        print(f"left out: {error}")
        return EXIT_UNAVAILABLE if os.environ.get("CI") == "true" else 0
    medians = [median(column) for column in zip(*rows, strict=True)]
    print(
        f"Ansible's time over SSH, medians of {len(rows)} (simulated server): "
        f"deploy {medians[0]:.1f} s, unchanged deploy {medians[1]:.1f} s"
    )
    bars = options.fail_above
    return int(bars is not None and any(time_s > bar for time_s, bar in zip(medians, bars, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
