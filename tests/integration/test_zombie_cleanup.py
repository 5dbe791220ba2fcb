"""The role against real processes on this machine, through ansible-playbook."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
TABLE = ProcessTable()

NVIDIA_SMI = """\
import os, pathlib, sys
if pathlib.Path(NODE, "fail").exists():
    print("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    sys.exit(9)
held = []
for file in pathlib.Path(NODE, "memory").iterdir():
    pid, gpu = map(int, file.name.split("-"))
    if os.path.exists(f"/proc/{pid}/exe"):  # not so for a zombie
        held.append((pid, gpu, int(file.read_text() or 0)))
leak = pathlib.Path(NODE, "leak")
for gpu in (0, 1):
    if "compute" in sys.argv[1]:
        for pid, where, mib in held:
            if where == gpu:
                print(f"GPU-{gpu}, {pid}, python3, {mib}")
    else:
        used = sum(mib for _, where, mib in held if where == gpu) + (int(leak.read_text()) if leak.exists() else 0)
        print(f"{gpu}, GPU-{gpu}, 00000000:0{gpu + 1}:00.0, {used}, 97887")
"""

SERVER = """\
import os, pathlib, signal, sys, time
options = set(sys.argv[1:])
def hold(gpu):
    pathlib.Path(NODE, "memory", f"{os.getpid()}-{gpu}").write_text("70000")
def again(*_):
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    hold(0)
launcher = os.getpid()
for gpu in (0, 1):
    if os.fork() == 0:
        if "deaf" in options:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "again" in options:
            signal.signal(signal.SIGTERM, again)
        if "unallocated" not in options:
            hold(gpu)
        pathlib.Path(NODE, f"ready-{launcher}-{gpu}").touch()
        while True:
            time.sleep(60)
while len(list(pathlib.Path(NODE).glob(f"ready-{launcher}-*"))) < 2:
    time.sleep(0.01)
pathlib.Path(NODE, f"ready-{launcher}").touch()
if "orphans" in options:
    os._exit(1)
while True:
    time.sleep(60)
"""


@dataclass
class Server:
    """A launcher and its two schedulers, in a session of their own."""

    launcher: int
    start_ticks: int

    def members(self) -> set[int]:
        """Pids of the session that run (zombies do not)."""
        found = TABLE.scan(lambda _: False).values()
        return {
            p.pid for p in found if p.session == self.launcher and p.live_thread and p.start_ticks >= self.start_ticks
        }


@dataclass
class Site:
    """A machine with two GPUs made of files, and an inventory that leads to it."""

    directory: Path
    servers: list[Server] = field(default_factory=list)
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("memory", "state"):
            (self.directory / name).mkdir()
        for name, body in (("nvidia-smi", NVIDIA_SMI), ("server", SERVER)):
            path = self.directory / name
            path.write_text(f"#!{sys.executable}\nNODE = {str(self.directory)!r}\n{body}")
            path.chmod(0o755)
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "zombie_cleanup_ownership": "session",
            "zombie_cleanup_nvidia_smi": str(self.directory / "nvidia-smi"),
            "zombie_cleanup_state_dir": str(self.directory / "state"),
            "zombie_cleanup_grace_s": 2,
            "zombie_cleanup_settle_s": 2,
        }
        inventory = {"inference": {"hosts": {"here": variables}}}
        (self.directory / "hosts.yml").write_text(yaml.safe_dump(inventory))
        play = {"hosts": "inference", "gather_facts": False, "roles": ["zombie_cleanup"]}
        (self.directory / "play.yml").write_text(yaml.safe_dump([play]))

    def start(self, *options: str, record: bool = True) -> Server:
        child = subprocess.Popen([str(self.directory / "server"), *options], start_new_session=True)
        self.children.append(child)
        start_ticks = TABLE.start_ticks(child.pid)
        assert start_ticks is not None
        server = Server(child.pid, start_ticks)
        self.servers.append(server)
        wait_until((self.directory / f"ready-{child.pid}").exists)
        if "orphans" in options:
            child.wait()
        if record:
            content = {"launch_id": "one", "pid": child.pid, "session": child.pid, "start_ticks": start_ticks}
            self.record.write_text(json.dumps(content | {"boot_id": TABLE.boot_id()}))
        return server

    @property
    def record(self) -> Path:
        return self.directory / "state/launch.json"

    def play(self, mode: str = "orphans", *arguments: str, **variables: Any) -> Result:
        extra = {"zombie_cleanup_mode": mode} | {f"zombie_cleanup_{name}": value for name, value in variables.items()}
        command = [sys.executable, "-m", "ansible", "playbook", "-i", str(self.directory / "hosts.yml")]
        command += ["-e", json.dumps(extra), *arguments, str(self.directory / "play.yml")]
        settings = {
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_ROLES_PATH": str(REPOSITORY / "roles"),
            "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.directory / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.directory / "tmp"),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        done = subprocess.run(
            command, cwd=REPOSITORY, env=os.environ | settings, capture_output=True, text=True, timeout=120, check=False
        )
        return Result(done.returncode, done.stdout + done.stderr)

    def close(self) -> None:
        for server in self.servers:
            for pid in server.members():
                os.kill(pid, signal.SIGKILL)
        for child in self.children:
            child.wait()


@dataclass
class Result:
    """What a playbook run gave."""

    status: int
    output: str

    def changed(self) -> bool:
        assert self.status == 0, self.output
        return "changed=1" in self.output


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture
def foreign(site: Site) -> Iterator[Server]:
    """Somebody else's server. It survives every test."""
    server = site.start(record=False)
    for pid in server.members() - {server.launcher}:
        for file in (site.directory / "memory").glob(f"{pid}-*"):
            file.write_text("400")  # small enough for our own server to fit beside it
    before = server.members()
    assert len(before) == 3
    yield server
    assert server.members() == before


@pytest.mark.usefixtures("foreign")
def test_clean_machine_is_unchanged(site: Site) -> None:
    result = site.play()
    assert not result.changed()
    assert not site.play("all").changed()


@pytest.mark.usefixtures("foreign")
def test_orphans_go_and_the_second_run_changes_nothing(site: Site) -> None:
    server = site.start("orphans")
    assert len(server.members()) == 2
    result = site.play("orphans", "--diff")
    assert result.changed()
    assert not server.members()
    assert "70400 of 97887 MiB in use" in result.output
    assert "+GPU 0: 400 of 97887 MiB in use" in result.output
    assert not site.play().changed()


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("options", [("orphans", "deaf"), ("orphans", "again"), ("orphans", "unallocated")])
def test_orphans_that_ignore_term_or_fork_or_hold_nothing_yet(site: Site, options: tuple[str, ...]) -> None:
    server = site.start(*options)
    assert site.play().changed()
    assert not server.members()


@pytest.mark.usefixtures("foreign")
def test_live_launch_is_protected_until_everything_goes(site: Site) -> None:
    server = site.start()
    assert not site.play().changed()
    assert len(server.members()) == 3
    assert site.play("all").changed()
    assert not server.members()
    assert not site.record.exists()
    assert site.record.with_name("launch.json.last").exists()
    assert not site.play("all").changed()


@pytest.mark.usefixtures("foreign")
def test_check_mode_shows_and_touches_nothing(site: Site) -> None:
    server = site.start("orphans")
    before, files = server.members(), sorted((site.directory / "state").iterdir())
    result = site.play("all", "--check", "--diff")
    assert result.changed()
    assert "+GPU 0: 400 of 97887 MiB in use" in result.output
    assert server.members() == before
    assert sorted((site.directory / "state").iterdir()) == files


def test_foreign_memory_is_named_and_survives(site: Site, foreign: Server) -> None:
    ours = site.start("orphans")
    for file in (site.directory / "memory").iterdir():
        if int(file.name.split("-")[0]) in foreign.members():
            file.write_text("20000")
    result = site.play()
    assert result.status == 2
    assert not ours.members()
    assert "GPU memory is held by processes that are not ours" in result.output
    assert "docs/runbooks/foreign-gpu-user.md" in result.output
    assert all(str(pid) in result.output for pid in foreign.members() - {foreign.launcher})
    result = site.play(fail_on_foreign=False)
    assert not result.changed()
    assert "Left alone" in result.output


@pytest.mark.usefixtures("foreign")
def test_record_of_a_reused_number_owns_nothing(site: Site) -> None:
    server = site.start()
    record = json.loads(site.record.read_text())
    site.record.write_text(json.dumps(record | {"start_ticks": record["start_ticks"] - 1}))
    for file in (site.directory / "memory").iterdir():
        file.write_text("100")
    assert site.play("all").changed()  # the record goes
    assert len(server.members()) == 3


def test_leak_and_failing_driver_are_errors(site: Site) -> None:
    (site.directory / "leak").write_text("70000")
    result = site.play()
    assert result.status == 2
    assert "docs/runbooks/gpu-memory-held-no-process.md" in result.output
    assert not site.play(allow_leak=True).changed()
    (site.directory / "fail").touch()
    result = site.play()
    assert result.status == 2
    assert "NVIDIA-SMI has failed because it couldn't communicate" in result.output


def test_machine_without_pct_is_told_so(site: Site) -> None:
    result = site.play(ownership="container", pct=str(site.directory / "none"), become=False)
    assert result.status == 2
    assert "this is not a Proxmox host" in result.output


def test_arguments_are_checked(site: Site) -> None:
    result = site.play("some")
    assert result.status == 2
    assert "value of zombie_cleanup_mode must be one of: orphans, all" in result.output
