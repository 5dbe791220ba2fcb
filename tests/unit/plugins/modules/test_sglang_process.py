from __future__ import annotations

import dataclasses
import json
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.detached_process import StartError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_files import (
    LaunchFileError,
    LaunchFiles,
    rotate_log,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_manager import (
    LaunchError,
    ProcessManager,
    describe,
)
from ansible_collections.sglang_ops.eagle3.plugins.modules import sglang_process
from ansible_collections.sglang_ops.eagle3.plugins.modules.sglang_process import apply

from tests.unit.plugins.fake_server import free_port, parameters

if TYPE_CHECKING:
    from collections.abc import Iterator


class Server:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.manager = ProcessManager(LaunchFiles(str(folder / "state")))

    def apply(self, *, mode: str = "serves", check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        wanted = {**parameters(self.folder, self.port, mode), **changes}
        with self.manager.files.lock(1.0):
            return apply(wanted, self.manager, check_mode=check_mode)

    @property
    def members(self) -> list[int]:
        return [process.pid for process in self.manager.members(self.manager.files.read())]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.apply(state="stopped")


def test_start_is_idempotent_and_detached(server: Server) -> None:
    first = server.apply()
    launch = first["launch"]
    assert first["changed"]
    assert os.getsid(launch["pid"]) == launch["session"] == launch["pid"]
    standard = [str(Path(f"/proc/{launch['pid']}/fd/{number}").readlink()) for number in range(3)]
    assert standard == ["/dev/null", launch["log_file"], launch["log_file"]]
    environment = Path(f"/proc/{launch['pid']}/environ").read_text().split("\0")
    assert sorted(word.split("=")[0] for word in environment if word) == ["HOME", "LANG", "NCCL_PROTO", "PATH"]
    assert Path(launch["log_file"]).stat().st_mode & 0o777 == 0o600
    limits = Path(f"/proc/{launch['pid']}/limits").read_text().splitlines()
    for name in ("Max open files", "Max locked memory"):
        soft, hard = next(line for line in limits if line.startswith(name)).removeprefix(name).split()[:2]
        assert soft == hard
    record = server.manager.files.directory / "launch.json"
    assert record.stat().st_mode & 0o777 == 0o600

    second = server.apply()
    assert not second["changed"]
    assert second["launch"]["launch_id"] == launch["launch_id"]
    assert not server.apply(check_mode=True)["changed"]


@pytest.mark.parametrize("change", ["environment", "input", "restarted"])
def test_what_makes_a_new_launch(server: Server, change: str) -> None:
    old = server.apply()["launch"]
    changes: dict[str, Any] = {}
    if change == "environment":
        changes["environment"] = {"NCCL_PROTO": "Simple"}
    elif change == "restarted":
        changes["state"] = "restarted"
    else:
        config = server.folder / "other.json"
        config.write_text("1")
        changes["inputs"] = [str(config)]
    planned = server.apply(check_mode=True, **changes)
    assert planned["changed"]
    assert planned["launch"]["launch_id"] == old["launch_id"]
    new = server.apply(**changes)
    assert new["launch"]["launch_id"] != old["launch_id"]
    assert not Path(f"/proc/{old['pid']}/fd/0").exists()
    if change == "environment":
        assert "NCCL_PROTO=LL" in new["diff"]["before"]
        assert "NCCL_PROTO=Simple" in new["diff"]["after"]
    assert Path(new["launch"]["log_file"] + ".1").exists()


def test_stop_ends_the_whole_session(server: Server) -> None:
    server.apply(mode="deaf")
    deadline = time.monotonic() + 5
    while len(server.members) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    members = server.members
    assert len(members) == 2
    record = server.manager.files.read()
    assert record is not None
    planned = server.apply(state="stopped", check_mode=True)
    assert planned["changed"]
    assert server.apply(state="stopped")["changed"]
    assert server.manager.members(record) == []
    assert not server.apply(state="stopped")["changed"]
    assert (server.manager.files.directory / "launch.json.last").exists()


def test_check_mode_on_a_fresh_machine(server: Server) -> None:
    result = apply(parameters(server.folder, server.port), server.manager, check_mode=True)
    assert result["changed"]
    assert result["launch"] is None
    assert not server.manager.files.directory.exists()


def test_a_server_that_dies_at_once(server: Server) -> None:
    with pytest.raises(LaunchError, match="died at once with exit status 1"):
        server.apply(argv=["/bin/false"])


def test_an_interpreter_that_cannot_be_executed(server: Server) -> None:
    broken = server.folder / "broken"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    with pytest.raises(StartError, match="cannot execute"):
        server.apply(argv=[str(broken)])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"argv": ["/no/python"]}, "no interpreter /no/python"),
        ({"model_paths": ["/no/model"]}, "model path /no/model does not exist"),
        ({"model_paths": ["/"]}, "holds no config.json"),
    ],
)
def test_refused_before_the_start(server: Server, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(LaunchError, match=says):
        server.apply(**changes)
    assert server.manager.files.read() is None


def test_the_port_of_somebody_else(server: Server) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", server.port))
        other.listen()
        with pytest.raises(LaunchError, match=rf"in use by process {os.getpid()} "):
            server.apply()


def test_an_address_that_is_not_ours(server: Server) -> None:
    with pytest.raises(LaunchError, match="cannot be bound"):
        server.apply(host="192.0.2.1")


def test_one_run_at_a_time(server: Server) -> None:
    with server.manager.files.lock(1.0), pytest.raises(LaunchFileError, match="another run"):
        server.apply()


def test_a_record_of_another_boot_owns_nothing(server: Server) -> None:
    server.apply()
    record = server.manager.files.read()
    assert record is not None
    old = dataclasses.replace(record, boot_id="another")
    assert not server.manager.is_live(old)
    assert server.manager.members(old) == []
    given_away = dataclasses.replace(record, start_ticks=record.start_ticks - 1)
    assert server.manager.members(given_away) == []


def test_a_broken_record_is_a_sentence(server: Server) -> None:
    server.manager.files.directory.mkdir()
    (server.manager.files.directory / "launch.json").write_text("{")
    with pytest.raises(LaunchFileError, match="not JSON"):
        server.apply()
    (server.manager.files.directory / "launch.json").unlink()


def test_rotation(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert rotate_log(log, 2) == []
    for text in ("one", "two", "three", "four"):
        log.write_text(text)
        rotate_log(log, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.1", "log.2"]
    assert (tmp_path / "log.1").read_text() == "four"
    log.touch()
    assert rotate_log(log, 2) == []


def test_description_has_one_flag_a_line() -> None:
    text = describe(["/python", "-m", "module", "--a", "1", "--b"], {"X": "1"})
    assert text == "X=1\n/python\n-m\nmodule\n--a 1\n--b\n"


def run_module(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any]) -> dict[str, Any]:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        sglang_process.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_the_module_itself(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = parameters(server.folder, server.port)
    planned = run_module(capsys, {**arguments, "_ansible_check_mode": True})
    assert planned["changed"]
    assert planned["launch"] is None
    started = run_module(capsys, arguments)
    assert started["launch"]["port"] == server.port
    refused = run_module(capsys, {**arguments, "argv": ["/no/python"]})
    assert refused["failed"]
    assert refused["msg"].startswith("There is no interpreter /no/python;")
    assert refused["msg"].endswith(".")
    missing = run_module(capsys, {"state_dir": arguments["state_dir"]})
    assert "missing" in missing["msg"]


def test_a_failure_has_class_cause_and_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        wanted = parameters(tmp_path, busy.getsockname()[1], "serves")
        with patch_module_args(wanted), pytest.raises(SystemExit):
            sglang_process.main()
    found = json.loads(capsys.readouterr().out)["failure"]
    assert found["class"] == "port-in-use"
    assert found["cause"].startswith("Port ")
    assert found["remedy"].startswith("End that process")
    assert sglang_process.failure(StartError("cannot start x"))["class"] == "unknown"
