from __future__ import annotations

import dataclasses
import io
import json
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from controller.analysis.breakeven import breakeven
from controller.analysis.result import Flag, Interval, SweepAnalysis
from controller.analysis.sweep import analyse
from controller.report import flag_words, numbers
from controller.report.sentences import breakeven_sentences, sweep_sentences
from controller.report.text import breakeven_json, render, render_breakeven, report_json
from tests.unit.controller.analysis.builders import failed, launch, sweep

if TYPE_CHECKING:
    from controller.analysis.model import Launch

BASELINE = [82.0, 83.0, 82.5, 83.0, 82.2]
FASTER = [95.0, 96.0, 95.5, 96.5, 95.2]
SLOWER = [60.0, 60.5, 61.0, 59.5, 60.0]


def shown(analysis: SweepAnalysis, width: int = 100) -> str:
    out = io.StringIO()
    render(analysis, Console(file=out, width=width))
    return out.getvalue()


def words(analysis: SweepAnalysis) -> str:
    return "\n".join(sweep_sentences(analysis))


def test_tables_fit_a_terminal() -> None:
    launches = [dataclasses.replace(item, simulated=True) for item in sweep({"steps=3": SLOWER}, BASELINE)]
    text = shown(analyse(launches), width=80)
    table = [line for line in text.splitlines() if line.startswith((" steps=3 ", "steps=3 "))][:2]
    assert "HURTS" in table[0]
    assert "1.80 [1.80, 1.80]" in table[1]
    assert "simulated" in text.splitlines()[0]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_figure_is_cut_where_the_terminal_is_narrow(width: int) -> None:
    launches = sweep({"an-arm-with-quite-a-long-name": SLOWER}, BASELINE)
    text = shown(analyse(launches), width=width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_simulated_comes_first_and_only_when_it_is() -> None:
    launches = sweep({"steps=3": SLOWER}, BASELINE)
    assert "simulated" not in shown(analyse(launches))
    simulated = [dataclasses.replace(item, simulated=True) for item in launches]
    assert sweep_sentences(analyse(simulated))[0].startswith("These figures are simulated")
    assert report_json(analyse(simulated))["simulated"] is True


def test_verdicts_in_words() -> None:
    noisy = [base * factor for base, factor in zip(BASELINE, [1.12, 0.98, 1.08, 1.0, 1.06], strict=True)]
    arms = {"steps=1": FASTER, "steps=2": SLOWER, "steps=4": BASELINE, "steps=5": noisy}
    text = words(analyse([*sweep(arms, BASELINE), failed("steps=9", steps=9)]))
    assert "steps=1 PAYS: +15.9 % [+15.6 %, +16.2 %] over 5 blocks" in text
    assert "steps=2 HURTS: -27.1 %" in text
    assert "steps=4 is EQUAL to the baseline: +0.0 %" in text
    assert "steps=5 is UNDECIDED (+4.7 %" in text
    assert "blocks should decide" in text
    assert "steps=9 FAILED: 1 launch, no measurement." in text
    assert "steps=9, cell 0-steps=9: the launch gave no measurement (out_of_memory)." in text
    assert "steps=1 is the winner so far with +15.9 %" in text
    assert "UNCONFIRMED: the launches that chose it cannot also prove it." in text


def test_break_even_in_words() -> None:
    blocks = range(4)
    launches = [launch("baseline", 1000 / 12, block=block) for block in blocks]
    launches += [launch("steps=3", 60.0, length=1.8, block=block) for block in blocks]
    launches += [launch("steps=1", 60.0, length=1.8, block=block) for block in blocks]
    text = words(analyse(launches))
    assert (
        "steps=3 needs L >= 2.50 [2.50, 2.50] to break even; measured 1.80 [1.80, 1.80]: every step of 3 must be "
        "accepted with >= 0.691 on average; measured 0.472."
    ) in text
    assert "steps=1 needs L >= 2.50 [2.50, 2.50] to break even" in text
    assert "with 1 step L is at most 2, so it cannot pay at any acceptance." in text
    assert "Use baseline: speculation does not pay at any step count measured." in text


def test_faults_come_before_everything_else() -> None:
    analysis = analyse(sweep({"steps=3": FASTER}, BASELINE, length=1.0))
    lines = sweep_sentences(analysis)
    assert lines[0].startswith("FAULT steps=3, cell 0-steps=3, concurrency 1: the acceptance length is 1.000")
    assert "steps=3 is INVALID and not ranked: see the faults above." in lines
    assert "No recommendation: no arm gave figures that can be used." in lines
    assert "FAULT" in shown(analysis)


@pytest.mark.parametrize("blocks", [1, 2, 3, 5])
def test_a_lucky_launch_is_never_told_as_a_gain(blocks: int) -> None:
    speeds = [94.0, 60.0, 60.5, 61.0, 59.5][:blocks]
    text = words(analyse(sweep({"steps=3": speeds}, BASELINE[:blocks])))
    assert "PAYS" not in text
    assert "winner" not in text
    assert "Keep baseline for now" in text


def test_winner_on_fresh_launches() -> None:
    launches = sweep({"steps=3": FASTER, "steps=5": FASTER}, BASELINE)
    fresh = [launch("baseline", 82.4, block=10, confirmation=True)]
    good = analyse([*launches, *fresh, launch("steps=3", 95.4, block=10, confirmation=True)])
    text = words(good)
    assert "Use steps=3: +15.9 % [+15.6 %, +16.2 %], confirmed on 1 fresh launch, which gave +15.8 %." in text
    assert "It ties with steps=5; fewer steps win a tie." in text
    bad = analyse([*launches, *fresh, launch("steps=3", 60.0, length=1.8 * 60 / 95.5, block=10, confirmation=True)])
    text = words(bad)
    assert "but was NOT REPRODUCED on 1 fresh launch; do not rely on it." in text
    assert "the larger part is the acceptance length." in text
    same = analyse([*launches, launch("baseline", 97.0, block=10, confirmation=True), *good_arm()])
    assert "not faster than their baseline" in words(same)


def good_arm() -> list[Launch]:
    return [launch("steps=3", 95.4, block=10, confirmation=True)]


def test_no_baseline_and_no_common_block() -> None:
    assert "without a baseline nothing says whether" in words(analyse([launch("steps=3", 60.0)]))
    text = words(analyse([launch("baseline", 82.0, block=0), launch("steps=3", 60.0, block=1)]))
    assert "steps=3 is UNDECIDED: no block has both this arm and the baseline." in text


def test_several_levels_say_which() -> None:
    launches = [
        launch(arm, speed, block=block, levels=(1, 8))
        for block in range(3)
        for arm, speed in (("baseline", 82.0), ("steps=3", 60.0))
    ]
    text = words(analyse(launches))
    assert "Concurrency 1: Use baseline" in text
    assert "Concurrency 8: Use baseline" in text


def test_adaptive_in_words() -> None:
    launches = [launch("baseline", tps, block=block) for block, tps in enumerate(BASELINE)]
    launches += [launch("adaptive", tps, length=2.4, block=block, adaptive=True) for block, tps in enumerate(FASTER)]
    text = words(analyse(launches))
    assert "adaptive needs L >= 2.07" in text
    assert "to break even; measured 2.40 [2.40, 2.40].\n" in text


def test_variance_and_prediction_in_words() -> None:
    launches = []
    for block, shift in enumerate((1.0, 1.05, 0.95, 1.02)):
        launches.append(launch("baseline", [80 * shift, 80.1 * shift, 79.9 * shift], block=block))
        for steps, length, histogram in ((1, 1.8, (11111, 44443)), (3, 2.6, (7692, 7692, 15383, 7692))):
            launches.append(
                launch(
                    f"steps={steps}",
                    [100 * shift, 100.4 * shift, 99.9 * shift],
                    length=length,
                    block=block,
                    run_more={"accept_histogram": histogram},
                )
            )
    text = words(analyse(launches))
    assert (
        "between launches and 0.0 % between runs of a launch: more launches help, more runs per launch do not" in text
    )
    assert "Acceptance by position of steps=3 predicts" in text
    assert "(by position 0.800, 0.750, 0.333)" in text


@pytest.mark.parametrize("code", sorted(flag_words.SENTENCES))
def test_every_flag_has_words(code: str) -> None:
    values = {
        "acceptance_length": 1.0,
        "failure": "died",
        "failed": 1,
        "requests": 4,
        "joined": 2,
        "cycle_ratio": 1.2,
        "cv": 0.23,
        "p": 0.01,
        "tokens_per_s": 94.0,
        "median_tokens_per_s": 60.0,
        "lowest_tokens_per_s": 59.5,
        "highest_tokens_per_s": 94.0,
        "reasons": "hw slowdown 20%",
        "sm_mhz": 1200.0,
        "temperature_c": 91.0,
        "processes": "python3 (container 130)",
        "growth_mib": 4096,
        "prompts": 8,
        "with_baseline_percent": 40.0,
        "within_baseline_percent": 100.0,
        "differences": "driver was 1, is 2",
        "by_host": "a +1.0%, b -2.0%",
        "hosts": "a (no route to host)",
        "superseded": 2,
        "cells": "b01-baseline",
    }
    sentence = flag_words.flag_sentence(Flag(code, arm="steps=3", values=values))
    assert sentence.startswith("steps=3: ")
    assert sentence.endswith(".")
    assert "{" not in sentence
    assert flag_words.flag_sentence(Flag(code, values=values))[0] not in "abcdefghijklmnopqrstuvwxyz"


def test_json_twin() -> None:
    data = json.loads(json.dumps(report_json(analyse(sweep({"steps=3": SLOWER}, BASELINE))), allow_nan=False))
    assert data["schema"] == 1
    assert data["sentences"]
    assert set(data) == {
        "schema", "simulated", "margin", "confidence", "aa_noise", "launches", "failed_launches", "levels", "flags",
        "sentences", "aa_source", "looks", "verdict_confidence",
    }  # fmt: skip


def test_where_the_margin_comes_from_and_what_the_stop_rule_costs() -> None:
    launches = sweep({"steps=3": FASTER}, BASELINE)
    text = words(analyse(launches, aa_noise=0.03, aa_source="A/A sweep S1", looks=3))
    assert "Two equal arms differ by up to 3.0% on this node (A/A sweep S1): that is the margin." in text
    assert "may look at the verdicts 3 times, so each is given at 98.3%" in text
    text = words(analyse(launches, aa_noise=0.01))
    assert "that is less than the margin." in text
    assert "stop rule" not in text


def test_an_aa_sweep_recommends_nothing() -> None:
    text = words(analyse(sweep({"baseline-again": BASELINE}, BASELINE)))
    assert "No recommendation: no arm speculates." in text


def test_the_warm_up_is_shown() -> None:
    launches = [dataclasses.replace(one, warmup=one.runs[:1]) for one in sweep({"steps=3": FASTER}, BASELINE)]
    assert "Left out of every figure: 40 warm-up requests (82." in words(analyse(launches))


def test_break_even_table() -> None:
    out = io.StringIO()
    render_breakeven(breakeven(12, 30), Console(file=out, width=100))
    text = out.getvalue()
    assert "L* = 2.50" in text
    assert "cannot pay" in text
    assert "0.691" in text
    assert breakeven_json(breakeven(12, 30))["sentences"][1].startswith("With 1 step it cannot pay")
    assert len(breakeven_sentences(breakeven(1, 100, 4))) == 3
    assert "With 1, 2 steps" in breakeven_sentences(breakeven(10, 32))[1]
    assert len(breakeven_sentences(breakeven(10, 10))) == 3


def test_numbers() -> None:
    assert numbers.plain(None) == "-"
    assert numbers.plain(float("inf")) == "unbounded"
    assert numbers.interval(None) == "-"
    assert numbers.interval(Interval(1.8)) == "1.80"
    assert numbers.change(float("inf")) == "unbounded"
    assert numbers.change_interval(Interval(1.15)) == "+15.0 %"
    assert numbers.times(2, "launch") == "2 launches"
    assert numbers.times(1, "block") == "1 block"
