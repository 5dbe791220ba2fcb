"""The unit on a real systemd: who runs it, what the kernel grants it, who sees the key, what a failure leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.layout import REPOSITORY
from tests.lab.playbook import PlaybookOutcome, run_playbook

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab.running import RunningLab

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.slow]

KEY = "not-for-your-eyes"
LOGS = "/data/eagle3/synth_100k/logs"
LOG = f"{LOGS}/sglang_eagle3_nccl_3step.log"
OPT_PYTHON = "/opt/ml-env/bin/python3"
# No kernel grants that many, privileged or not: fs.nr_open is the most.
TOO_MANY_FILES = "99999999999"


@pytest.fixture
def play(container: RunningLab, tmp_path: Path) -> Callable[..., PlaybookOutcome]:
    """Run one of the playbooks with the settings of the repository's inventory."""

    def run(name: str, **variables: Any) -> PlaybookOutcome:
        directory = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        directory.mkdir()
        return run_playbook(container, REPOSITORY / "playbooks" / f"{name}.yml", directory, variables=variables)

    return run


def shell(lab: RunningLab, script: str) -> str:
    done = lab.container("sh", "-ec", script)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def unit_property(lab: RunningLab, name: str) -> str:
    return shell(lab, f"systemctl show --property={name} --value sglang.service")


def kernel_says(lab: RunningLab, name: str) -> str:
    """The soft limit of the server as the kernel has it."""
    line = shell(lab, f"grep '^{name}' /proc/{unit_property(lab, 'MainPID')}/limits")
    return line.removeprefix(name).split()[0]


@pytest.fixture
def environment_in_opt(container: RunningLab) -> None:
    """A serving environment that every user can read, and the user that the role looks for."""
    shell(
        container,
        "useradd --system --home-dir /nonexistent sglang; cp -a /root/ml-env /opt/ml-env; "
        "mkdir -p /var/lib/sglang-simulator; chmod 777 /var/lib/sglang-simulator",
    )


@pytest.mark.usefixtures("environment_in_opt")
def test_the_unprivileged_user_runs_an_environment_that_it_can_read(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    variables = {"sglang_server_user": "", "sglang_server_python": OPT_PYTHON, "sglang_server_api_key": KEY}
    deployed = play("deploy", **variables)
    assert deployed.return_code == 0, deployed.output
    pid = unit_property(container, "MainPID")
    assert shell(container, f"stat --format=%U:%G /proc/{pid}") == "sglang:sglang"
    assert shell(container, f"stat --format=%U:%a /var/lib/sglang {LOGS}").split() == ["sglang:750"] * 2
    assert shell(container, "stat --format=%U:%a /etc/sglang/server.yaml") == "sglang:600"
    assert shell(container, "stat --format=%U:%a /etc/sglang/sglang.env") == "root:600"
    assert "HOME=/var/lib/sglang\n" in shell(container, f"tr '\\0' '\\n' </proc/{pid}/environ") + "\n"
    again = play("deploy", **variables)
    assert again.return_code == 0, again.output
    assert not [task.task for task in again.tasks if task.result.get("changed")]
    assert unit_property(container, "MainPID") == pid
    assert play("restart", **variables).return_code == 0
    assert shell(container, f"grep --count 'fired up and ready' {LOG} {LOG}.1").split() == [f"{LOG}:1", f"{LOG}.1:1"]


@pytest.mark.usefixtures("environment_in_opt")
def test_an_environment_of_root_is_run_by_root_with_a_notice(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    deployed = play("deploy", sglang_server_user="")
    assert deployed.return_code == 0, deployed.output
    assert shell(container, f"stat --format=%U /proc/{unit_property(container, 'MainPID')}") == "root"
    assert "the user sglang cannot run /root/ml-env/bin/python3" in " ".join(deployed.output.split())


@pytest.mark.usefixtures("environment_in_opt")
def test_a_user_that_cannot_run_the_server_is_refused_before_anything_is_stopped(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    assert play("deploy").return_code == 0
    pid = unit_property(container, "MainPID")
    refused = play("deploy", sglang_server_user="sglang")
    assert refused.return_code == 2
    assert "cannot run /root/ml-env/bin/python3" in refused.of("service_account_info")["msg"]
    assert unit_property(container, "MainPID") == pid


def test_limits_are_compared_with_what_the_kernel_grants(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    deployed = play("deploy")
    assert deployed.return_code == 0, deployed.output
    result = deployed.of("service_process_info")
    assert str(result["granted"]["nofile"]) == kernel_says(container, "Max open files")
    memlock = kernel_says(container, "Max locked memory")
    assert str(result["granted"]["memlock"]) == memlock
    # Depends on the machine: without CAP_SYS_RESOURCE the container has less than infinity.
    missing = [sentence for sentence in result["shortfalls"] if "memlock" in sentence]
    assert bool(missing) is (memlock != "unlimited")
    if missing:
        assert f"{memlock} bytes of memlock instead of unlimited" in missing[0]
        assert "'lxc.prlimit.memlock: unlimited' into /etc/pve/lxc/<vmid>.conf" in missing[0]
        assert "lxc.prlimit.memlock: unlimited" in " ".join(deployed.output.split())


@pytest.mark.parametrize("reaction", ["fail", "ignore"])
def test_limits_that_are_clipped_without_a_word(
    container: RunningLab, play: Callable[..., PlaybookOutcome], reaction: str
) -> None:
    deployed = play(
        "deploy",
        sglang_server_limits=reaction,
        sglang_server_limit_nofile=TOO_MANY_FILES,
        sglang_server_limit_memlock="0",
        sglang_server_oom_score_adj=100,
    )
    assert unit_property(container, "LimitNOFILE") == TOO_MANY_FILES  # what systemd says, not what the process has
    assert deployed.return_code == (2 if reaction == "fail" else 0), deployed.output
    result = deployed.of("service_process_info")
    assert result["granted"]["oom_score_adj"] == 100
    (sentence,) = result["shortfalls"]
    granted = kernel_says(container, "Max open files")
    assert f"may have {granted} of nofile instead of {TOO_MANY_FILES}" in sentence
    said = " ".join(deployed.output.split())
    assert (f"lxc.prlimit.nofile: {TOO_MANY_FILES}" in said) is (reaction != "ignore")


def test_the_key_is_in_no_place_where_another_could_read_it(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    deployed = play("deploy", sglang_server_api_key=KEY)
    assert deployed.return_code == 0, deployed.output
    assert KEY not in deployed.output
    pids = shell(container, "cat /sys/fs/cgroup/system.slice/sglang.service/cgroup.procs || pgrep -f sglang").split()
    assert unit_property(container, "MainPID") in pids
    seen = {
        "command lines and environments": shell(
            container, "for pid in " + " ".join(pids) + "; do cat /proc/$pid/cmdline /proc/$pid/environ; done"
        ),
        "systemctl show": shell(container, "systemctl show sglang.service"),
        "unit file": shell(container, "cat /etc/systemd/system/sglang.service"),
        "environment file": shell(container, "cat /etc/sglang/sglang.env"),
        "journal": shell(container, "journalctl --no-pager --output=export"),
    }
    assert "launch_server" in seen["command lines and environments"]
    assert "sglang.service" in seen["journal"]
    assert [place for place, text in seen.items() if KEY in text] == []
    search = f"grep --recursive --files-with-matches {KEY} /etc /var /root /data /tmp /run || true"
    files = shell(container, search).split()
    # The second is the log: SGLang writes its settings into it, as they are.
    assert sorted(files) == [LOG, "/etc/sglang/server.yaml"]
    assert shell(container, f"stat --format=%U:%a {' '.join(files)}").split() == ["root:600"] * 2


def test_a_launch_that_dies_leaves_no_restart_loop_and_its_own_log(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    program = (
        "import json, pathlib; path = pathlib.Path('/etc/sglang-simulator/node.json'); "
        "node = json.loads(path.read_text()); node['faults'] = {'crash_at': {'phase': 'weights', 'rank': 3}}; "
        "path.write_text(json.dumps(node))"
    )
    assert container.container("/usr/bin/python3", "-c", program).returncode == 0
    failed = play("deploy")
    assert failed.return_code == 2, failed.output
    assert failed.of("sglang_health")["failure"]["remedy"]
    assert unit_property(container, "Restart") == "on-failure"
    # RestartSec is 15: a unit that waits for its restart would be "activating".
    assert unit_property(container, "ActiveState") in {"failed", "inactive"}
    assert unit_property(container, "NRestarts") == "0"
    assert container.container("test", "-e", f"{LOG}.1").returncode == 1
    cleaned = play("clean")
    assert cleaned.return_code == 0, cleaned.output
    assert unit_property(container, "ActiveState") == "inactive"
    assert shell(container, "systemctl list-units --failed --no-legend --plain sglang.service") == ""
    again = play("clean")
    assert again.return_code == 0, again.output
    assert not [task.task for task in again.tasks if task.result.get("changed")]


def test_looking_at_a_dead_launch_leaves_the_unit_to_systemd_and_cleaning_ends_it(
    container: RunningLab, play: Callable[..., PlaybookOutcome]
) -> None:
    assert play("deploy").return_code == 0
    shell(container, f"kill -KILL {unit_property(container, 'MainPID')}")
    container.wait_until(lambda: unit_property(container, "ActiveState") == "activating", "the unit to be restarted")
    assert play("health").return_code == 2
    assert unit_property(container, "ActiveState") in {"activating", "active"}
    cleaned = play("clean")
    assert cleaned.return_code == 0, cleaned.output
    assert cleaned.of("gpu_reap")["unit"]["stopped"] is True
    assert unit_property(container, "ActiveState") == "inactive"
