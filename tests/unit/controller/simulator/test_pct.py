import subprocess

import pytest

from controller.simulator import Node, create_node
from controller.simulator.bin import pct as program


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return create_node(tmp_path_factory.mktemp("pct") / "node", profile="fast")


def pct(node: Node, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "SECRET": "x"}
    return subprocess.run(
        [node.path / "bin" / "pct", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=20,
        check=False,
    )


def test_status_list_config(node: Node) -> None:
    assert pct(node, "status", "129").stdout == "status: running\n"
    header, row = pct(node, "list").stdout.splitlines()
    assert header.split() == ["VMID", "Status", "Lock", "Name"]
    assert row.split() == ["129", "running", "inference"]
    config = pct(node, "config", "129").stdout.splitlines()
    assert "hostname: inference" in config
    assert "dev7: /dev/nvidia7" in config


def test_exec_passes_the_status_through(node: Node) -> None:
    assert pct(node, "exec", "129", "--", "sh", "-c", "exit 7").returncode == 7
    assert pct(node, "exec", "129", "--", "true").returncode == 0
    missing = pct(node, "exec", "129", "--", "no-such-program")
    assert missing.returncode == 127
    assert 'Failed to exec "no-such-program"' in missing.stderr


@pytest.mark.parametrize("option", [["--keep-env", "0"], ["--keep-env=0"]])
def test_a_clean_environment(node: Node, option: list[str]) -> None:
    lines = pct(node, "exec", "129", *option, "--", "env").stdout.splitlines()
    assert sorted(line.partition("=")[0] for line in lines) == ["PATH", "container"]


@pytest.mark.parametrize("option", [[], ["--keep-env", "1"]])
def test_the_environment_is_kept_by_default(node: Node, option: list[str]) -> None:
    lines = pct(node, "exec", "129", *option, "--", "env").stdout.splitlines()
    assert "SECRET=x" in lines
    assert "PATH=/sbin:/bin:/usr/sbin:/usr/bin" in lines


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["exec", "130", "--", "true"], "Configuration file 'nodes/pve/lxc/130.conf' does not exist"),
        (["exec", "129"], "missing command"),
        (["status"], "400 not enough arguments"),
        (["destroy", "129"], "ERROR: unknown command 'pct destroy'"),
        ([], "ERROR: no command specified"),
    ],
)
def test_its_own_failures_are_255(node: Node, arguments: list[str], text: str) -> None:
    failed = pct(node, *arguments)
    assert failed.returncode == 255
    assert text in failed.stderr


def test_a_stopped_container(node: Node) -> None:
    state = node.path / "state" / "container"
    state.write_text("stopped\n")
    try:
        assert pct(node, "status", "129").stdout == "status: stopped\n"
        refused = pct(node, "exec", "129", "--", "true")
        assert (refused.returncode, refused.stderr) == (255, "container '129' not running!\n")
    finally:
        state.unlink()


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["status", "129"], 0, "status: running\n"),
        (["status", "129", "--verbose"], 0, "vmid: 129"),
        (["list"], 0, "inference"),
        (["config", "129"], 0, "unprivileged: 0"),
        (["status", "7"], 255, "nodes/pve/lxc/7.conf"),
        (["exec", "129", "--keep-env", "0"], 255, "missing command"),
        (["frobnicate"], 255, "unknown command"),
        (["config"], 255, "not enough arguments"),
        ([], 255, "no command specified"),
    ],
)
def test_in_this_process(
    node: Node,
    arguments: list[str],
    status: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = {**node.settings, "state_dir": str(node.path / "state")}
    monkeypatch.setattr(program, "read_node", lambda: settings)
    assert program.main(arguments) == status
    written = capsys.readouterr()
    assert text in written.out + written.err
