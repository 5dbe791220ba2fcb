from __future__ import annotations

import json
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from controller import cli, paths
from controller.cli.app import COMMANDS, LazyGroup
from controller.exits import Exit, InputError, JournalError, LockedError, TargetError
from controller.paths import REPOSITORY

INVENTORY = """
inference:
  hosts:
    box: {ansible_host: 192.0.2.9, sglang_server_manager: systemd, sglang_server_environment: {KEPT: "1"}}
"""


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY)
    return str(path)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CONTROLLER_SIMULATOR_NODE", str(tmp_path / "node"))


@pytest.mark.parametrize(
    "arguments",
    [
        *(["plan", "--steps", steps] for steps in ("", "0", "-1", "a", "2,2", "2,,3")),
        ["plan"],
        ["plan", "--steps", "2", "--concurrency", "0"],
        ["plan", "--steps", "2", "--concurrency", "4,4"],
        ["plan", "--steps", "2", "--concurrency", "64", "--max-running-requests", "16"],
        ["plan", "--steps", "2", "--blocks", "0"],
        ["plan", "--steps", "2", "--workload", "nonsense"],
        ["plan", "--steps", "2", "--arm", "x"],
        ["plan", "--steps", "2", "--repeats", "100000"],
        ["sweep", "--resume", "/nowhere"],
        ["sweep", "--nonsense"],
        ["nonsense"],
        ["report", "/nowhere"],
        ["breakeven", "--decode-ms", "0", "--cycle-ms", "30"],
        ["breakeven", "--decode-ms", "nan", "--cycle-ms", "30"],
        ["breakeven", "--decode-ms", "12"],
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    arguments: list[str], inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = ["-i", inventory] if arguments[0] == "plan" else []
    assert cli.main([*arguments, *extra]) == Exit.USAGE
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert captured.err.strip().splitlines()[-1].startswith(("error: ", "Error: "))


@pytest.mark.parametrize("text", ["inference: [", "all: {hosts: {a: {}}}"])
def test_a_bad_inventory_is_exit_code_2(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(text)
    for arguments in (["plan", "--steps", "2"], ["sweep", "--steps", "2"], ["status"], ["stop"], ["clean"]):
        assert cli.main([*arguments, "-i", str(path)]) == Exit.USAGE
        assert capsys.readouterr().err.startswith("error: the inventory")


def test_the_plan_prints_every_cell_and_a_command_to_copy(inventory: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--steps", "2,3", "--blocks", "2", "--seed", "7", "-i", inventory]) == Exit.OK
    out = capsys.readouterr().out
    assert "6 launches on box (192.0.2.9)" in out
    assert "seed 7" in out
    commands = [shlex.split(line) for line in out.splitlines() if line.startswith("ansible-playbook")]
    assert [words[words.index("--tags") + 1] for words in commands[:2]] == ["draft_config,nccl_env"] * 2
    commands = commands[2:]
    assert len(commands) == 7
    assert commands[-1][-1] == "playbooks/stop.yml"
    values = [json.loads(words[-1]) for words in commands[:-1]]
    assert sorted(value["sglang_server_speculative"] for value in values) == [False, False, True, True, True, True]
    assert all(value["sglang_server_max_running_requests"] == 16 for value in values)
    assert all(value["sglang_server_restart"] == "no" for value in values)


def test_dry_run_is_plan_and_json_is_one_document(inventory: str, capsys: pytest.CaptureFixture[str]) -> None:
    common = [
        "--steps",
        "3",
        "--no-baseline",
        "--adaptive",
        "--arm",
        "tree=steps:2,NCCL_ALGO:Tree",
        "--seed",
        "1",
        "-i",
        inventory,
    ]
    assert cli.main(["plan", *common, "--json"]) == Exit.OK
    first = json.loads(capsys.readouterr().out)
    assert cli.main(["sweep", "--dry-run", *common, "--json"]) == Exit.OK
    second = json.loads(capsys.readouterr().out)
    assert [cell["cell"] for cell in first["cells"]] == [cell["cell"] for cell in second["cells"]]
    assert {arm["name"] for arm in first["plan"]["arms"]} == {"steps-3", "adaptive", "tree"}
    tree = next(cell for cell in first["cells"] if cell["arm"] == "tree")
    assert json.loads(shlex.split(tree["command"])[-1])["sglang_server_environment"] == {
        "KEPT": "1",
        "NCCL_ALGO": "Tree",
    }


def test_a_plan_touches_nothing(inventory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    assert cli.main(["plan", "--steps", "2", "-i", inventory]) == Exit.OK
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("extra", [["--steps", "2"], ["--blocks", "3"], ["--arm", "a=steps:2"], ["--dir", "x"]])
def test_resume_refuses_what_would_change_the_plan(
    tmp_path: Path, extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sweep", "--resume", str(tmp_path), *extra]) == Exit.USAGE
    assert extra[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("a."), 2),
        (TargetError("a."), 3),
        (LockedError("a."), 4),
        (JournalError("a."), 6),
        (KeyboardInterrupt(), 5),
        (click.Abort(), 5),
        (ValueError("surprise"), 1),
    ],
)
def test_every_error_is_a_sentence_and_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    @click.option("--debug", is_flag=True, expose_value=False)
    def failing() -> None:
        raise error

    monkeypatch.setattr(LazyGroup, "get_command", lambda *_: failing)
    assert cli.main(["report"]) == code
    captured = capsys.readouterr().err.lstrip()
    assert captured.startswith("error: ")
    assert captured.count("\n") == 1
    assert cli.main(["report", "--debug"]) == code
    assert "Traceback" in capsys.readouterr().err


def test_help_teaches_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == Exit.OK
    out = capsys.readouterr().out
    for word in (*COMMANDS, "Examples", "Exit codes", "interrupted; the sweep can be resumed"):
        assert word in out
    assert cli.main(["--version"]) == Exit.OK
    assert capsys.readouterr().out.startswith("controller ")


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--help"]) == Exit.OK
    out = capsys.readouterr().out
    assert "Usage: python -m controller" in out
    assert "\\b" not in out, "a raw docstring hides click's mark from click"


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], {"ansible", "ansible_runner", "numpy", "scipy", "httpx", "pydantic", "rich", "yaml"}),
        (
            ["sweep", "--help"],
            {"ansible_runner", "numpy", "httpx", "asyncio", "filelock", "controller.sweep.prepare"},
        ),
    ],
    ids=["neither Ansible nor numbers", "nothing that launches or measures"],
)
def test_help_imports_little(words: list[str], heavy: set[str]) -> None:
    code = (
        f"import sys\nfrom controller.cli import main\nmain({words!r})\n"
        f"sys.exit(', '.join(sorted({heavy!r} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_answers_at_once() -> None:
    """In processor time, so that a busy machine does not matter."""

    def best(command: list[str]) -> float:
        times = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *command], cwd=REPOSITORY, capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    assert best(["-m", "controller", "--help"]) - best(["-c", "pass"]) < 0.15


def test_breakeven_of_the_story(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["breakeven", "--decode-ms", "12", "--cycle-ms", "30", "--max-steps", "3"]
    assert cli.main([*arguments, "--json"]) == Exit.OK
    result = json.loads(capsys.readouterr().out)
    assert result["break_even_length"] == 2.5
    assert [step["can_pay"] for step in result["steps"]] == [False, True, True]
    assert cli.main(arguments) == Exit.OK
    assert "2.5" in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} -m controller --help | true",
        shell=True,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert paths.display(tmp_path / "sweeps" / "x") == "sweeps/x"
    assert paths.display(Path("/etc")) == "/etc"
    assert paths.state_directory() == tmp_path / "state" / "sglang-eagle3-ops"
    monkeypatch.delenv("CONTROLLER_SIMULATOR_NODE")
    assert paths.simulator_node() == REPOSITORY / ".simulator" / "node"
    assert paths.default_sweep_directory().parent == Path("sweeps")


def test_a_node_directory_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "something").write_text("")
    assert cli.main(["sweep", "--steps", "2"]) == Exit.USAGE
    assert "CONTROLLER_SIMULATOR_NODE" in capsys.readouterr().err
