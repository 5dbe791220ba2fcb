"""The options that decide a plan, from words to the plan itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller import cli
from controller.cli.plan_options import seconds
from controller.exits import Exit, InputError
from controller.inventory import Target, read_target
from controller.sweep import noise
from controller.sweep.prepare import chat_format_of


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "hosts.yml"
    path.write_text(
        "inference:\n  hosts:\n    box: {ansible_host: 192.0.2.9, sglang_server_model_path: /shared/kimi-k2.5-int4}\n"
    )
    return str(path)


def planned(inventory: str, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert cli.main(["plan", "-i", inventory, "--json", *words]) == Exit.OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["plan"]
    return found


def test_defaults_of_a_real_machine(real: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(real, capsys, "--steps", "2,3")
    assert plan["blocks"] == plan["max_blocks"] == 5
    assert plan["looks"] == [5]
    assert plan["confirm_blocks"] == 2
    assert plan["max_running_requests"] == plan["cuda_graph_max_bs"] == 16
    assert (plan["margin"], plan["aa_noise"], plan["budget_s"]) == (0.02, None, None)
    assert plan["workload"]["chat_format"] == "kimi-k2"


def test_a_simulated_node_gets_a_shorter_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("inference:\n  hosts:\n    box: {simulator_node: /node}\n")
    plan = planned(str(path), capsys, "--steps", "2")
    assert plan["blocks"] == 3
    assert plan["workload"]["chat_format"] == "plain"


def test_the_stop_rule(real: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(real, capsys, "--steps", "2", "--max-blocks", "12", "--budget", "2h", "--no-confirm")
    assert (plan["max_blocks"], plan["looks"], plan["budget_s"], plan["confirm_blocks"]) == (12, [5, 9, 12], 7200.0, 0)
    plan = planned(real, capsys, "--steps", "2", "--budget", "90m", "--blocks", "3")
    assert (plan["max_blocks"], plan["budget_s"]) == (12, 5400.0)


def test_several_levels_raise_the_caps_of_all_arms(real: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(real, capsys, "--steps", "2", "--concurrency", "1,8,32")
    assert plan["max_running_requests"] == plan["cuda_graph_max_bs"] == 32
    plan = planned(real, capsys, "--steps", "2", "--cuda-graph-max-bs", "8", "--chat-format", "chatml")
    assert (plan["max_running_requests"], plan["cuda_graph_max_bs"]) == (16, 8)
    assert plan["workload"]["chat_format"] == "chatml"


def test_an_aa_sweep_is_two_equal_arms(real: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(real, capsys, "--aa")
    first, second = plan["arms"]
    assert (first["name"], second["name"]) == ("baseline", "baseline-again")
    assert first["settings"] == second["settings"] == {"sglang_server_speculative": False}
    assert (plan["aa"], plan["blocks"], plan["confirm_blocks"]) == (True, 5, 0)


def test_the_noise_of_the_node_becomes_the_margin(real: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = read_target(Path(real))
    noise.keep(target, noise.Noise(0.031, 5, (1,), "S9", "2026-01-02T03:04:05+00:00", "box"))
    plan = planned(real, capsys, "--steps", "2")
    assert plan["aa_noise"] == 0.031
    assert plan["aa_source"] == "A/A sweep S9 of 2026-01-02, 5 blocks"
    plan = planned(real, capsys, "--steps", "2", "--aa-noise", "0.01", "--margin", "0.05")
    assert (plan["aa_noise"], plan["aa_source"], plan["margin"]) == (0.01, "--aa-noise", 0.05)
    assert planned(real, capsys, "--aa")["aa_noise"] is None
    assert noise.known(Target(Path("/x"), "other", {})) is None


@pytest.mark.parametrize(
    "words",
    [
        ["--aa", "--steps", "2"],
        ["--aa", "--max-blocks", "9"],
        ["--steps", "2", "--blocks", "5", "--max-blocks", "4"],
        ["--steps", "2", "--budget", "soon"],
        ["--steps", "2", "--budget", "0h"],
        ["--steps", "2", "--margin", "2"],
        ["--steps", "2", "--concurrency", "²"],
        ["--steps", "2", "--margin", "nan"],
        ["--steps", "2", "--aa-noise", "nan"],
    ],
)
def test_options_that_make_no_sense(real: str, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert cli.main(["plan", "-i", real, *words]) == Exit.USAGE
    assert "Traceback" not in capsys.readouterr().err


def test_accepting_changes_needs_a_sweep_to_resume(real: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sweep", "-i", real, "--steps", "2", "--accept-changes"]) == Exit.USAGE
    assert "goes with --resume" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "value"), [("2h", 7200), ("90m", 5400), ("1h30m", 5400), ("45s", 45), ("1.5h", 5400)])
def test_times(text: str, value: float) -> None:
    assert seconds("--budget", text) == value


@pytest.mark.parametrize("text", ["", "2", "h", "2d", "-1h", "1m2h"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InputError, match="is not a time"):
        seconds("--budget", text)


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"sglang_server_model_path": "/m/Kimi_K2-Instruct"}, "kimi-k2"),
        ({"sglang_server_model_path": "/m/llama"}, "plain"),
        ({"sglang_server_model_path": "{{ x }}/target"}, "plain"),
        ({"sglang_server_extra_flags": {"--served-model-name": "kimi-k2.5"}}, "kimi-k2"),
        ({}, "plain"),
    ],
)
def test_the_chat_format_follows_the_model(variables: dict[str, Any], name: str) -> None:
    assert chat_format_of(variables) == name
