"""The playbooks against a systemd container over SSH: what a launch leaves, survives and replaces (simulated)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.layout import REPOSITORY
from tests.lab.playbook import PlaybookOutcome, run_playbook
from tests.lab.topology import GPUS_OF_A_HOST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab.running import RunningLab

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.slow]

LOG = "/data/eagle3/synth_100k/logs/sglang_eagle3_nccl_3step.log"


@pytest.fixture
def play(container: RunningLab, tmp_path: Path) -> Callable[..., PlaybookOutcome]:
    """Run one of the playbooks with the settings of the repository's inventory."""

    def run(name: str, **variables: Any) -> PlaybookOutcome:
        directory = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        directory.mkdir()
        return run_playbook(container, REPOSITORY / "playbooks" / f"{name}.yml", directory, variables=variables)

    return run


def main_pid(lab: RunningLab) -> int:
    return int(lab.container("systemctl", "show", "--property=MainPID", "--value", "sglang.service").stdout)


def used_mib(lab: RunningLab) -> list[int]:
    output = lab.pve("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits").stdout
    return [int(line) for line in output.splitlines()]


def serves(lab: RunningLab) -> bool:
    return lab.container("/usr/bin/python3", "-c", FETCH_MODELS).returncode == 0


FETCH_MODELS = "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/v1/models', timeout=5)"


def set_faults(lab: RunningLab, faults: dict[str, Any]) -> None:
    """Give the simulated node faults, from its next launch on."""
    program = (
        "import json, pathlib, sys; path = pathlib.Path('/etc/sglang-simulator/node.json'); "
        "node = json.loads(path.read_text()); node['faults'] = json.loads(sys.argv[1]); "
        "path.write_text(json.dumps(node))"
    )
    assert lab.container("/usr/bin/python3", "-c", program, json.dumps(faults)).returncode == 0


def test_stop_frees_the_gpus_and_collects_the_log(
    container: RunningLab, play: Callable[..., PlaybookOutcome], tmp_path: Path
) -> None:
    deployed = play("deploy")
    assert deployed.return_code == 0, deployed.output
    assert serves(container)
    assert min(used_mib(container)) > 70_000
    collected = tmp_path / "server.log"
    stopped = play("stop", collect_log_src=LOG, collect_log_dest=str(collected))
    assert stopped.return_code == 0, stopped.output
    assert used_mib(container) == [0] * GPUS_OF_A_HOST
    assert "fired up and ready to roll" in collected.read_text()
    assert container.container("systemctl", "is-active", "sglang.service").stdout.strip() == "inactive"


def test_a_restart_replaces_a_server_whose_schedulers_ignore_sigterm(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    set_faults(container, {"orphans": True})
    assert play("deploy").return_code == 0
    first = main_pid(container)
    restarted = play("restart")
    assert restarted.return_code == 0, restarted.output
    assert main_pid(container) not in {0, first}
    assert serves(container)
    assert max(used_mib(container)) < 97_887  # one server's worth: the old one is gone


def test_a_server_started_by_hand_gives_way_to_the_unit(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    set_faults(container, {"orphans": True})
    flags = "--model-path /shared/kimi-k2.5-int4 --tp-size 8 --mem-fraction-static 0.88 --port 8000"
    by_hand = f"setsid /root/ml-env/bin/python3 -m sglang.launch_server {flags} >/root/by-hand.log 2>&1 </dev/null &"
    container.container("sh", "-c", by_hand)
    container.wait_until(lambda: serves(container), "the server that was started by hand")
    container.container("sh", "-c", "kill -KILL $(pgrep --full launch_server | head -n 1)")
    assert min(used_mib(container)) > 70_000  # its schedulers are zombies now
    deployed = play("deploy")
    assert deployed.return_code == 0, deployed.output
    assert len(deployed.of("gpu_reap")["killed"]) >= GPUS_OF_A_HOST
    assert main_pid(container) > 0
    assert serves(container)


def test_a_second_deployment_changes_nothing_and_a_changed_variable_restarts_the_server(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    assert play("deploy").return_code == 0
    first = main_pid(container)
    again = play("deploy")
    assert again.return_code == 0, again.output
    assert not [task.task for task in again.tasks if task.result.get("changed")]
    assert main_pid(container) == first
    assert play("deploy", sglang_server_environment={"NCCL_DEBUG": "INFO"}).return_code == 0
    assert main_pid(container) not in {0, first}


def test_restarts_follow_each_other_as_quickly_as_a_sweep_asks_for_them(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    assert play("deploy").return_code == 0
    launches = {main_pid(container)}
    for _ in range(4):  # systemd refuses the fourth start within ten minutes, unless it is told to forget
        restarted = play("restart")
        assert restarted.return_code == 0, restarted.output
        launches.add(main_pid(container))
    assert len(launches) == 5
    for log in (LOG, f"{LOG}.1", f"{LOG}.3"):  # each launch has one of its own, and three of before are kept
        text = container.container("cat", log).stdout
        assert text.count("fired up and ready to roll") == 1, log
        assert "cannot stat" not in text
    assert container.container("test", "-e", f"{LOG}.4").returncode == 1


def test_a_draft_that_was_not_patched_is_reported_with_its_cause(play: Callable[..., PlaybookOutcome]) -> None:
    failed = play("restart")
    assert failed.return_code == 2, failed.output
    failure = failed.of("sglang_health")["failure"]
    assert "context" in failure["class"]
    assert "262144" in failure["cause"]
    assert failure["remedy"]
