"""zombie_cleanup against real processes: what is the container's goes; what is another's stays and is named."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.layout import GPU_DIRECTORY
from tests.lab.playbook import PlaybookOutcome, run_playbook
from tests.lab.topology import GPUS_OF_A_HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lab.running import RunningLab

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab

# Short, because what is simulated here releases memory at once and what is stubborn stays stubborn.
PATIENCE = {"zombie_cleanup_grace_s": 2, "zombie_cleanup_kill_wait_s": 3, "zombie_cleanup_settle_s": 2}
ROLE = [{"hosts": "inference", "gather_facts": False, "roles": ["zombie_cleanup"]}]

FREEZER = Path("/sys/fs/cgroup/freezer")

Holder = subprocess.Popen[str]


@pytest.fixture
def hold(container: RunningLab) -> Iterator[Callable[..., Holder]]:
    """Start ``hold-gpu`` on pve (vmid None) or in a container through ``pct exec`` and wait until it holds."""
    started: list[Holder] = []

    def start(*options: str, vmid: int | None = 129) -> Holder:
        inside = [] if vmid is None else ["pct", "exec", str(vmid), "--keep-env", "0", "--"]
        command = container.enter_pve(*inside, "hold-gpu", *options)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        return process

    yield start
    container.pve("pkill", "--signal", "KILL", "--full", "hold-gpu|sglang::|another-job")
    for process in started:
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def clean(container: RunningLab, tmp_path: Path) -> Callable[..., PlaybookOutcome]:
    """Run the role."""

    def run(**variables: Any) -> PlaybookOutcome:
        check = bool(variables.pop("check", False))
        directory = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        directory.mkdir()
        return run_playbook(container, ROLE, directory, variables=PATIENCE | variables, check=check)

    return run


def used_mib(lab: RunningLab) -> list[int]:
    output = lab.pve("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits").stdout
    used = [int(line) for line in output.splitlines()]
    assert len(used) == GPUS_OF_A_HOST
    return used


def signals(outcome: PlaybookOutcome) -> list[str]:
    return sorted(killed["signal"] for killed in outcome.of("gpu_reap")["killed"])


def test_a_clean_machine_stays_as_it_is(container: RunningLab, clean: Callable[..., PlaybookOutcome]) -> None:
    outcome = clean()
    assert outcome.return_code == 0, outcome.output
    assert outcome.of("gpu_reap")["changed"] is False
    assert used_mib(container) == [0] * GPUS_OF_A_HOST


def test_orphans_of_a_dead_launcher_are_ended(
    container: RunningLab, hold: Callable[..., Holder], clean: Callable[..., PlaybookOutcome]
) -> None:
    for gpu in range(2):
        hold("--orphan", "--gpus", str(gpu), "--mib", "76000", "--title", f"sglang::scheduler_TP{gpu}")
    assert used_mib(container)[:3] == [76000, 76000, 0]
    outcome = clean()
    assert outcome.return_code == 0, outcome.output
    assert signals(outcome) == ["TERM", "TERM"]
    assert used_mib(container) == [0] * GPUS_OF_A_HOST
    assert clean().of("gpu_reap")["changed"] is False


def test_a_process_that_ignores_sigterm_is_killed(
    container: RunningLab, hold: Callable[..., Holder], clean: Callable[..., PlaybookOutcome]
) -> None:
    hold("--ignore-term", "--orphan", "--mib", "76000")
    outcome = clean()
    assert outcome.return_code == 0, outcome.output
    assert signals(outcome) == ["KILL"]
    assert used_mib(container) == [0] * GPUS_OF_A_HOST


def test_a_tree_of_two_generations_goes_whole(
    container: RunningLab, hold: Callable[..., Holder], clean: Callable[..., PlaybookOutcome]
) -> None:
    hold("--generations", "2", "--ignore-term", "--gpus", "3")
    assert used_mib(container)[3] == 19000
    outcome = clean()
    assert outcome.return_code == 0, outcome.output
    assert used_mib(container) == [0] * GPUS_OF_A_HOST
    assert container.container("pgrep", "--full", "sglang::|hold-gpu").stdout == ""


def test_check_mode_says_what_it_would_end_and_ends_nothing(
    container: RunningLab, hold: Callable[..., Holder], clean: Callable[..., PlaybookOutcome]
) -> None:
    hold("--orphan", "--gpus", "0")
    before = used_mib(container)
    outcome = clean(check=True)
    assert outcome.return_code == 0, outcome.output
    assert outcome.of("gpu_reap")["changed"] is True
    assert signals(outcome) == ["TERM"]
    assert used_mib(container) == before


@pytest.mark.parametrize(("vmid", "owner"), [(1290, "1290"), (None, "host")], ids=["other container", "host"])
def test_another_tenant_of_the_same_gpu_survives_and_is_named(
    container: RunningLab,
    hold: Callable[..., Holder],
    clean: Callable[..., PlaybookOutcome],
    vmid: int | None,
    owner: str,
) -> None:
    if vmid is not None:
        container.start_container(vmid)
    hold("--orphan", "--gpus", "0", "--mib", "20000", "--title", "another-job", vmid=vmid)
    hold("--orphan", "--gpus", "0", "--mib", "70000")
    assert used_mib(container)[0] == 90000
    outcome = clean()
    result = outcome.of("gpu_reap")
    assert outcome.return_code == 2, outcome.output
    assert used_mib(container)[0] == 20000
    assert [(entry["gpu"], entry["used_mib"]) for entry in result["foreign"]] == [(0, 20000)]
    assert owner in result["foreign"][0]["owner"]
    assert "another-job" in result["foreign"][0]["name"]
    assert clean(zombie_cleanup_fail_on_foreign=False).return_code == 0


def test_a_process_of_a_unit_that_is_not_active_goes_and_a_live_unit_is_protected(
    container: RunningLab, clean: Callable[..., PlaybookOutcome]
) -> None:
    started = container.container("systemd-run", "--unit=sglang.service", "hold-gpu", "--gpus", "1", "--mib", "50000")
    assert started.returncode == 0, started.stderr
    container.wait_until(lambda: used_mib(container)[1] == 50000, "the unit to hold memory")
    spared = clean()
    assert spared.return_code == 0, spared.output
    assert used_mib(container)[1] == 50000
    assert spared.of("gpu_reap")["protected"]
    ended = clean(zombie_cleanup_mode="all")
    assert ended.return_code == 0, ended.output
    assert used_mib(container)[1] == 0
    assert container.container("systemctl", "is-active", "sglang.service").stdout.strip() != "active"


@pytest.mark.parametrize("mode", ["orphans", "all"])
def test_a_container_without_the_unit_is_cleaned_all_the_same(
    container: RunningLab, hold: Callable[..., Holder], clean: Callable[..., PlaybookOutcome], mode: str
) -> None:
    unit = container.container("systemctl", "show", "--property=LoadState", "--value", "sglang.service")
    assert unit.stdout == "not-found\n"
    hold("--orphan", "--gpus", "4", "--mib", "76000")
    outcome = clean(zombie_cleanup_mode=mode)
    assert outcome.return_code == 0, outcome.output
    assert signals(outcome) == ["TERM"]
    assert used_mib(container) == [0] * GPUS_OF_A_HOST
    assert clean(zombie_cleanup_mode=mode).of("gpu_reap")["changed"] is False


def test_a_server_that_ignores_sigterm_is_killed_with_its_schedulers(
    container: RunningLab, clean: Callable[..., PlaybookOutcome]
) -> None:
    flags = "--model-path /shared/kimi-k2.5-int4 --tp-size 8 --mem-fraction-static 0.88 --port 8000"
    server = f"setsid /root/ml-env/bin/python3 -m sglang.launch_server {flags}"
    container.container("sh", "-c", f"{server} >/root/server.log 2>&1 </dev/null &")
    container.wait_until(lambda: min(used_mib(container)) > 70_000, "the server to load")
    launcher = container.container("sh", "-c", "pgrep --full launch_server | head -n 1").stdout.strip()
    # A stopped process is deaf to everything but SIGKILL.
    assert container.container("sh", "-c", f"kill -STOP {launcher}").returncode == 0
    outcome = clean(zombie_cleanup_mode="all")
    assert outcome.return_code == 0, outcome.output
    assert "KILL" in signals(outcome)
    assert len(signals(outcome)) >= GPUS_OF_A_HOST + 1
    assert used_mib(container) == [0] * GPUS_OF_A_HOST
    assert container.container("pgrep", "--full", "sglang").stdout == ""


def test_a_stopped_container_is_nothing_to_clean(container: RunningLab, clean: Callable[..., PlaybookOutcome]) -> None:
    container.pve("pct", "stop", "129")
    # Gathering nothing, the role does not need the container to answer.
    outcome = clean()
    assert outcome.return_code == 0, outcome.output
    assert outcome.of("gpu_reap")["changed"] is False


def test_memory_that_nobody_holds_is_a_failure_that_names_the_runbook(
    container: RunningLab, clean: Callable[..., PlaybookOutcome]
) -> None:
    container.pve("truncate", "--size=30G", str(GPU_DIRECTORY / "gpu5/lost.leak"))
    recorder = '#!/bin/sh\necho "$*" >>/root/asked\nexec nvidia-smi "$@"\n'
    container.pve("sh", "-c", f"cat >/root/nvidia-smi <<'END'\n{recorder}END\nchmod +x /root/nvidia-smi")
    outcome = clean(zombie_cleanup_nvidia_smi="/root/nvidia-smi")
    assert outcome.return_code == 2, outcome.output
    result = outcome.of("gpu_reap")
    assert "docs/runbooks/gpu-memory-held-no-process.md" in result["msg"]
    assert [(row["index"], row["unaccounted_mib"]) for row in result["leaked"]] == [(5, 30720)]
    assert result["next_steps"]
    asked = container.pve("cat", "/root/asked").stdout.splitlines()
    assert asked
    assert [
        words for words in asked if not words.startswith(("--query-gpu=", "--query-compute-apps="))
    ] == []  # no reset
    assert used_mib(container)[5] == 30720
    assert clean(zombie_cleanup_allow_leak=True).return_code == 0


@pytest.fixture
def freeze() -> Iterator[Callable[[int], None]]:
    """Put a process of this machine into state D, in which a SIGKILL stays pending, until the test is over."""
    group = FREEZER / "lab-test"
    if not FREEZER.is_dir():
        pytest.skip(f"no freezer of cgroup version 1 at {FREEZER}: no process can be made unkillable")
    group.mkdir(exist_ok=True)

    def start(pid: int) -> None:
        (group / "cgroup.procs").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")

    yield start
    (group / "freezer.state").write_text("THAWED")
    deadline = time.monotonic() + 10
    while (group / "cgroup.procs").read_text():
        assert time.monotonic() < deadline, "the process did not end after it was thawed"
        time.sleep(0.05)
    group.rmdir()


def number_outside(pid_on_pve: str) -> int:
    """This machine's number of a process: /proc/PID/status lists the numbers from the outermost namespace inwards."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = status.read_text().splitlines()
        except OSError:
            continue
        numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
        # this machine, the lab, pve, the container
        if len(numbers) == 4 and numbers[2] == pid_on_pve:
            return int(numbers[0])
    raise AssertionError(f"no process of this machine is {pid_on_pve} on pve")


def test_a_process_that_cannot_be_killed_is_a_failure_that_says_so(
    container: RunningLab,
    hold: Callable[..., Holder],
    clean: Callable[..., PlaybookOutcome],
    freeze: Callable[[int], None],
) -> None:
    hold("--orphan", "--gpus", "2", "--mib", "76000")
    pid = container.pve("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader").stdout.strip()
    freeze(number_outside(pid))
    outcome = clean()
    assert outcome.return_code == 2, outcome.output
    message = outcome.of("gpu_reap")["msg"]
    assert pid in message
    assert "docs/runbooks/" in message
    assert used_mib(container)[2] == 76000


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n", "NVIDIA-SMI has failed"),
        ("#!/bin/sh\nsleep 600\n", "nvidia-smi"),
    ],
    ids=["fails", "hangs"],
)
def test_a_driver_that_does_not_answer_stops_the_cleaning(
    container: RunningLab,
    hold: Callable[..., Holder],
    clean: Callable[..., PlaybookOutcome],
    program: str,
    words: str,
) -> None:
    hold("--orphan", "--gpus", "0")
    container.pve("sh", "-c", f"cat >/root/nvidia-smi <<'END'\n{program}END\nchmod +x /root/nvidia-smi")
    outcome = clean(zombie_cleanup_nvidia_smi="/root/nvidia-smi", zombie_cleanup_timeout_s=2)
    assert outcome.return_code == 2
    result = outcome.of("gpu_reap")
    assert words in result["msg"]
    assert "docs/runbooks/nvidia-smi-fails.md" in result["msg"]
    assert result["killed"] == []
    assert used_mib(container)[0] > 0
