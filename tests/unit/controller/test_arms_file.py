"""Files of arms: those shipped in plans/, and what is wrong with others, in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_flags import known_flags, problem_with

from controller import cli
from controller.arms_file import find, read, read_arms, shipped
from controller.exits import Exit, InputError

ROOT = Path(__file__).resolve().parents[3]
VERSIONS = ("0.5.15", "0.5.23")
"""The version that the simulated node plays, and the newest whose flags are known."""


def written(folder: Path, text: str) -> str:
    path = folder / "arms.yml"
    path.write_text(text)
    return str(path)


def test_what_is_shipped_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "plan-files.md").read_text()
    assert shipped()
    for name in shipped():
        assert f"plans/{name}.yml" in page
        assert f"--arms-file {name} " in page


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_file_makes_a_plan(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("inference:\n  hosts:\n    box: {ansible_host: 192.0.2.9}\n")
    assert cli.main(["plan", "-i", str(inventory), "--json", "--arms-file", name, "--blocks", "1"]) == Exit.OK
    planned = json.loads(capsys.readouterr().out)
    arms = [entry.arm() for entry in read(name).arms]
    assert [arm["name"] for arm in planned["plan"]["arms"]] == ["baseline", *(arm.name for arm in arms)]
    assert len(planned["cells"]) == 1 + len(arms)
    assert all(entry.why for entry in read(name).arms)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", shipped())
def test_sglang_knows_the_flags_of_a_shipped_file(name: str, version: str) -> None:
    known = known_flags(version)
    assert known is not None
    for arm in read_arms([name]):
        assert not [problem for flag in arm.flags if (problem := problem_with(f"--{flag}", known))]


def test_every_kind_of_entry(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        description: all of it
        arms:
          - name: one
            why: because
            steps: 2
            flags: {--kv-cache-dtype: fp8_e5m2, flag: true, gone: null, many: [1, 2]}
            environment: {NCCL_NTHREADS: 512, NCCL_ALGO: null}
            settings: {sglang_server_mem_fraction_static: 0.8}
        """,
    )
    (arm,) = read_arms([path])
    assert arm.flags == {"kv-cache-dtype": "fp8_e5m2", "flag": True, "gone": None, "many": [1, 2]}
    assert arm.environment == {"NCCL_NTHREADS": "512", "NCCL_ALGO": None}
    assert arm.settings == {
        "sglang_server_speculative": True,
        "sglang_server_speculative_num_steps": 2,
        "sglang_server_mem_fraction_static": 0.8,
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("arms: [", "is not YAML (line 1, column 8): "),
        ("- a", "begins with something else than the keys description and arms"),
        ("arms: [{name: a}]", "description: field required"),
        ("{description: d, arms: x}", "arms: input should be a valid list"),
        ("{description: d, arms: []}", "arms: list should have at least 1 item"),
        ("{description: d, arms: [{name: a, step: 2}]}", "arm 1 (a), step: there is no such key"),
        ("{description: d, arms: [{name: a}, {name: b, steps: 0}]}", "arm 2 (b), steps: input should be greater"),
        ('{description: d, arms: [{name: a, steps: "2"}]}', "arm 1 (a), steps: input should be a valid integer"),
        ("{description: d, arms: [{name: a b}]}", "arm 1 (a b), name: letters, digits"),
        ("{description: d, arms: [{name: 3}]}", "arm 1, name: input should be a valid string"),
        ("{description: d, arms: [3]}", "arm 1: input should be a valid dictionary"),
        ("{description: d, arms: [{name: a, flags: {1: 2}}]}", "arm 1 (a), flags, 1: input should be a valid string"),
        ("{description: d, arms: [{name: a, flags: {x: [1, [2]]}}]}", "arm 1 (a), flags, x"),
        (
            "{description: d, arms: [{name: a, environment: {x: 1}}]}",
            "arm 1 (a), environment: 'x' is not an environment",
        ),
        ("{description: d, arms: [{name: a, environment: {X: true}}]}", "arm 1 (a), environment: x is true: write"),
        ("{description: d, arms: [{name: a, settings: {x: 1}}]}", "arm 1 (a), settings: 'x' is not an sglang_server_"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_place(text: str, sentence: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.sentence.startswith(f"--arms-file {path}: {sentence}")
    assert caught.value.sentence.endswith(".")
    assert "\n" not in caught.value.sentence


def test_a_file_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nccl-on-pcie"):
        find("no-such-file")
    path = tmp_path / "latin.yml"
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match="cannot be read"):
        read(str(path))


def test_two_files_and_an_arm_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "{description: d, arms: [{name: x, steps: 2}]}")
    assert cli.main(["plan", "--arms-file", path, "--arm", "x=steps:3"]) == Exit.USAGE
    assert "two arms are called 'x'" in capsys.readouterr().err
    assert cli.main(["sweep", "--resume", str(tmp_path), "--arms-file", path]) == Exit.USAGE
    assert "leave out --arms-file" in capsys.readouterr().err
