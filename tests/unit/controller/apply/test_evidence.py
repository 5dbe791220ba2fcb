from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from controller.apply.choice import choose
from controller.apply.errors import RefusedError
from controller.apply.evidence import Difference, read_evidence
from controller.apply.host_vars import HostVars
from controller.arms import Arm, baseline, steps_arm
from controller.exits import Exit, InputError
from controller.inventory import Target, read_target
from controller.redaction import REDACTED
from controller.sweep.results import analyse, read_sweep
from tests.unit.controller.apply.recorded_sweep import (
    BASELINE,
    EQUAL,
    FASTER,
    PAYS,
    SCATTERED,
    SLOWER,
    write_sweep,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TARGET = Target(Path("/inventory/hosts.yml"), "box", {})
TREE = Arm("tree", dict(steps_arm(3).settings), {"log-requests": True}, {"NCCL_ALGO": "Tree"})


def refusal(directory: Path, asked: str | None = None) -> str:
    with pytest.raises(RefusedError) as caught:
        read_evidence(directory, TARGET, asked, force=False)
    assert caught.value.exit_code is Exit.RUN_FAILED
    assert "nothing was changed" in caught.value.sentence
    return caught.value.sentence


def test_a_confirmed_winner_is_chosen(tmp_path: Path) -> None:
    evidence = read_evidence(write_sweep(tmp_path / "s"), TARGET, None, force=False)
    assert (evidence.choice.arm, evidence.choice.verdict) == ("steps-3", "PAYS, CONFIRMED")
    assert evidence.choice.objections == ()


@pytest.mark.parametrize(
    ("speeds", "fresh", "words"),
    [
        ({"baseline": BASELINE, "steps-3": SLOWER}, {}, "steps-3 HURTS"),
        ({"baseline": BASELINE, "steps-3": SCATTERED}, {}, "steps-3 is UNDECIDED"),
        ({"baseline": BASELINE[:1], "steps-3": FASTER[:1]}, {}, "steps-3 is UNCONFIRMED"),
        (PAYS, {}, "UNCONFIRMED"),
        (PAYS, {"baseline": (82.0,), "steps-3": (60.0,)}, "NOT REPRODUCED"),
        ({"steps-3": FASTER, "steps-2": FASTER}, {}, "without a baseline"),
    ],
)
def test_what_is_not_proven_is_refused_with_the_reason(
    tmp_path: Path, speeds: Mapping[str, Sequence[float]], fresh: Mapping[str, Sequence[float]], words: str
) -> None:
    directory = write_sweep(tmp_path / "s", speeds, fresh)
    asked = refusal(directory, "steps-3")
    assert words in asked or words in refusal(directory)
    assert "--force" in asked
    forced = read_evidence(directory, TARGET, "steps-3", force=True)
    assert forced.choice.arm == "steps-3"
    assert forced.choice.objections


def test_a_draft_that_is_not_wired_is_refused_as_invalid(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "s", length=1.0)
    assert "no draft token is ever accepted" in refusal(directory, "steps-3")
    assert "steps-3 is INVALID" in refusal(directory, "steps-3")
    assert "No recommendation" in refusal(directory)


def test_answers_that_differ_are_refused(tmp_path: Path) -> None:
    sentence = refusal(write_sweep(tmp_path / "s", answers={"steps-3": "b"}))
    assert "are the baseline's in 0% of the pairs, the baseline's own in 100%" in sentence


def test_equal_changes_nothing_and_hurts_says_how_to_serve_without(tmp_path: Path) -> None:
    equal = read_evidence(
        write_sweep(tmp_path / "e", {"baseline": BASELINE, "steps-3": EQUAL}, {}), TARGET, None, force=False
    )
    assert equal.choice.arm is None
    assert "is EQUAL to the baseline" in equal.choice.no_change
    hurts = write_sweep(tmp_path / "h", {"baseline": BASELINE, "steps-3": SLOWER}, {})
    assert "To serve without speculation: --arm baseline." in refusal(hurts)
    plain = read_evidence(hurts, TARGET, "baseline", force=False)
    assert (plain.choice.arm, plain.choice.verdict) == ("baseline", "baseline")
    with pytest.raises(InputError, match="--force needs --arm"):
        read_evidence(hurts, TARGET, None, force=True)


def test_the_second_best_is_refused_because_only_the_winner_was_confirmed(tmp_path: Path) -> None:
    speeds = {"baseline": BASELINE, "steps-2": (89.0, 90.0, 89.5), "steps-3": FASTER}
    fresh = {"baseline": (82.0,), "steps-3": (95.4,)}
    assert "But the sweep recommends steps-3" in refusal(write_sweep(tmp_path / "s", speeds, fresh), "steps-2")


def test_an_arm_without_speculation_that_pays_is_not_a_recommendation(tmp_path: Path) -> None:
    other = Arm("plain", {"sglang_server_speculative": False, "sglang_server_tp_size": 4})
    directory = write_sweep(tmp_path / "s", {"baseline": BASELINE, "plain": FASTER}, {}, arms=[baseline(), other])
    assert "recommends no arm" in refusal(directory, "plain")


def test_several_concurrencies_must_agree(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "s", levels=(1, 4))
    evidence = read_evidence(directory, TARGET, None, force=False)
    assert evidence.choice.arm == "steps-3"
    plan, state = read_sweep(directory)
    analysis = analyse(plan, state)
    slow = analyse(*read_sweep(write_sweep(tmp_path / "t", {"baseline": BASELINE, "steps-3": SLOWER}, {}, levels=(4,))))
    mixed = dataclasses.replace(analysis, levels=(analysis.levels[0], slow.levels[0]))
    choice = choose(mixed, None)
    assert choice.arm is None
    assert "do not agree" in choice.objections[-1]
    assert "Concurrency 4: Use baseline" in choice.objections[1]
    assert [text for text in choose(mixed, "steps-3").objections if "HURTS" in text]
    lonely = dataclasses.replace(mixed, levels=(mixed.levels[0], dataclasses.replace(slow.levels[0], arms=())))
    assert "steps-3 was not measured" in choose(lonely, "steps-3").objections[-1]


def test_an_unfinished_sweep_is_refused(tmp_path: Path) -> None:
    assert "not finished: 1 of 8 launches" in refusal(write_sweep(tmp_path / "s", missing=1))
    with pytest.raises(InputError, match="measured nothing"):
        read_evidence(write_sweep(tmp_path / "t", missing=8), TARGET, None, force=True)


def test_bad_input_is_refused_even_with_force(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "s")
    for target in (
        Target(Path("/i"), "other", {}),
        Target(Path("/i"), "box", {"simulator_node": "/node"}),
    ):
        with pytest.raises(InputError, match="is not applied to another"):
            read_evidence(directory, target, None, force=True)
    with pytest.raises(InputError, match="has baseline, steps-3"):
        read_evidence(directory, TARGET, "steps-9", force=True)
    with pytest.raises(InputError, match="A/A"):
        read_evidence(write_sweep(tmp_path / "aa", aa=True), TARGET, None, force=True)
    (directory / "prompts.jsonl").write_text((directory / "prompts.jsonl").read_text().replace("a", "b", 1))
    with pytest.raises(InputError, match="not what the sweep began with"):
        read_evidence(directory, TARGET, None, force=True)
    (directory / "prompts.jsonl").unlink()
    with pytest.raises(InputError, match="frozen prompts"):
        read_evidence(directory, TARGET, None, force=True)


def inventory(root: Path, more: Mapping[str, Any] | None = None) -> Target:
    host = {"ansible_host": "192.0.2.9", "sglang_server_environment": {"KEPT": "1"}, **(more or {})}
    (root / "hosts.yml").write_text(json.dumps({"inference": {"hosts": {"box": host}}}))
    return read_target(root / "hosts.yml")


def test_the_settings_are_what_the_launches_of_the_arm_had(tmp_path: Path) -> None:
    target = inventory(tmp_path, {"sglang_server_speculative_num_steps": 2})
    ours = HostVars.of(target.inventory, "box")
    evidence = read_evidence(write_sweep(tmp_path / "s"), target, None, force=False)
    change = evidence.change(target, ours, forced=False)
    assert change.settings == {
        "sglang_server_max_running_requests": 16,
        "sglang_server_cuda_graph_max_bs": 8,
        "sglang_server_speculative": True,
        "sglang_server_speculative_num_steps": 3,
    }
    assert change.content is not None
    assert yaml.safe_load(change.content) == change.settings
    comments = [line for line in change.content.splitlines() if line.startswith("#")]
    said = " ".join(line.removeprefix("# ") for line in comments)
    for words in ("Sweep S1: arm steps-3, PAYS, CONFIRMED.", "steps-3 PAYS: +1", "tok/s, L 1.8"):
        assert words in said
    assert max(map(len, change.content.splitlines())) <= 80
    assert change.about["sweep_id"] == "S1"
    shown = [one.sentence for one in evidence.differences(change, target, ours)]
    assert "sglang_server_speculative_num_steps: 2 -> 3" in shown
    assert "sglang_server_max_running_requests: not set -> 16" in shown

    ours.write(change.content)
    without = read_evidence(tmp_path / "s", target, "baseline", force=False)
    again = without.change(read_target(target.inventory), ours, forced=False)
    gone = [one.sentence for one in without.differences(again, read_target(target.inventory), ours)]
    assert "sglang_server_speculative_num_steps: 3 -> as the rest of the inventory says" in gone


def test_secrets_are_not_shown() -> None:
    shown = Difference("sglang_server_environment", None, {"HF_TOKEN": "hunter22", "A": "1"}).sentence
    assert "hunter22" not in shown
    assert '"A": "1"' in shown


@pytest.mark.parametrize("layout", ["folder", "folder with others", "file"])
def test_flags_are_added_to_those_of_the_inventory_not_to_those_of_the_last_arm(tmp_path: Path, layout: str) -> None:
    target = inventory(tmp_path)
    ours = HostVars.of(target.inventory, "box")
    if layout != "folder":
        other = ours.directory / "host_vars" / ("box.yml" if layout == "file" else "box/main.yml")
        other.parent.mkdir(parents=True)
        other.write_text("sglang_server_extra_flags: {mine: 1}\n")
        target = read_target(target.inventory)
    kept = {} if layout == "folder" else {"mine": 1}
    directory = write_sweep(
        tmp_path / "s", {"baseline": BASELINE, "tree": FASTER}, {"baseline": (82.0,), "tree": (95.4,)},
        arms=[baseline(), TREE],
    )  # fmt: skip
    ours.write("sglang_server_environment: {KEPT: '1', OLD: x}\n")
    evidence = read_evidence(directory, target, None, force=False)
    if layout != "folder":
        with pytest.raises(InputError, match="set by hand"):
            evidence.change(target, ours, forced=False)
        other.write_text(other.read_text().replace("sglang_server_extra_flags", "unrelated"))
        kept = {}
    change = evidence.change(read_target(target.inventory), ours, forced=False)
    assert change.settings["sglang_server_environment"] == {"KEPT": "1", "NCCL_ALGO": "Tree"}
    assert change.settings["sglang_server_extra_flags"] == {**kept, "log-requests": True}
    assert "OLD" in (ours.read() or "")


@pytest.mark.parametrize("hidden_value", [{"__ansible_vault": "x"}, {"__ansible_unsafe": "x"}, REDACTED])
def test_an_encrypted_value_is_not_copied_in_clear(tmp_path: Path, hidden_value: object) -> None:
    target = inventory(tmp_path)
    hidden = {**target.variables, "sglang_server_environment": {"TOKEN": hidden_value}}
    directory = write_sweep(tmp_path / "s", {"baseline": BASELINE, "tree": FASTER}, {}, arms=[baseline(), TREE])
    evidence = read_evidence(directory, target, "tree", force=True)
    with pytest.raises(InputError, match="encrypted"):
        evidence.change(Target(target.inventory, "box", hidden), HostVars.of(target.inventory, "box"), forced=True)
    forced = evidence.change(target, HostVars.of(target.inventory, "box"), forced=True)
    assert "# FORCED, although: tree" in str(forced.content)


def test_of_a_fleet_each_host_is_compared_with_itself(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "s", hosts=("box", "other"), limit="box,other")
    canary = read_evidence(directory, TARGET, None, force=False).prove(TARGET)
    # One host did it all, so launches name none.
    assert (len(canary.expectation.launches), canary.expectation.host) == (8, "")
    assert canary.configuration.launch_differences("steps-3", {"argv": ["x"], "fingerprint": "y"})
    other = Target(TARGET.inventory, "other", {})
    assert read_evidence(directory, other, None, force=False).prove(other).expectation.host == "other"
    with pytest.raises(InputError, match="is not applied to another"):
        read_evidence(directory, Target(TARGET.inventory, "third", {}), None, force=True)
