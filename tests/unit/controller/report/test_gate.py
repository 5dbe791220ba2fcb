from __future__ import annotations

import dataclasses

import pytest

from controller.analysis.sweep import analyse
from controller.report.adaptive import adaptive_config, adaptive_sentence
from controller.report.gate import gate_objections
from tests.unit.controller.analysis.builders import failed, launch, sweep

BASELINE = [82.0, 83.0, 82.5, 83.0, 82.2]
FASTER = [95.0, 96.0, 95.5, 96.5, 95.2]
SLOWER = [60.0, 60.5, 61.0, 59.5, 60.0]
BOTH = {"steps=1": SLOWER, "steps=2": FASTER}


@pytest.mark.parametrize(
    ("arms", "words", "only", "objects"),
    [
        (BOTH, ["hurts"], (), True),
        (BOTH, ["hurts"], ("steps=2",), False),
        (BOTH, ["undecided"], (), False),
        (BOTH, ["pays"], ("steps=2",), True),
        ({"steps=2": BASELINE}, ["equal"], (), True),
        ({"steps=2": BASELINE}, ["hurts", "undecided"], (), False),
        ({"steps=2": SLOWER[:1]}, ["undecided"], (), True),
        (BOTH, ["hurts"], ("steps=9",), True),
        ({}, ["hurts"], (), True),
    ],
)
def test_gate(arms: dict[str, list[float]], words: list[str], only: tuple[str, ...], *, objects: bool) -> None:
    found = list(gate_objections(analyse(sweep(arms, BASELINE)), words, only))
    assert bool(found) == objects, found
    assert all(sentence.startswith("the gate says no: ") for sentence in found)


def test_a_gate_that_cannot_see_stays_shut() -> None:
    dead = analyse(sweep({"steps=2": FASTER}, BASELINE, length=1.0))
    assert list(gate_objections(dead, ["hurts"]))
    nothing = analyse([*sweep({}, BASELINE), failed("steps=2", steps=2)])
    assert list(gate_objections(nothing, ["hurts"]))
    assert list(gate_objections(None, ["hurts"]))


def test_a_winner_that_was_not_reproduced_is_undecided() -> None:
    launches = sweep({"steps=2": FASTER}, BASELINE)
    launches.append(launch("baseline", 82.4, block=10, confirmation=True))
    launches.append(launch("steps=2", 60.0, block=10, confirmation=True))
    analysis = analyse(launches)
    assert list(gate_objections(analysis, ["undecided"]))
    assert not list(gate_objections(analysis, ["hurts"]))


def test_adaptive_config_only_from_what_was_shown() -> None:
    assert adaptive_config(analyse(sweep(BOTH, BASELINE))) == {"1": {"candidate_steps": [2]}}
    assert adaptive_config(analyse(sweep({"steps=1": SLOWER}, BASELINE))) == {"1": {"candidate_steps": [0]}}
    assert adaptive_config(analyse(sweep({"steps=2": FASTER}, BASELINE, length=1.0))) is None
    assert adaptive_config(analyse([launch("steps=2", 90.0)])) is None
    assert "--speculative-num-steps 2 " in adaptive_sentence(analyse(sweep(BOTH, BASELINE)))
    assert "drafts nothing" in adaptive_sentence(analyse(sweep({"steps=1": SLOWER}, BASELINE)))
    assert adaptive_sentence(None).startswith("There is no adaptive.json")


def test_the_sentence_names_the_first_release_that_reads_the_file() -> None:
    alone, loaded = analyse(sweep(BOTH, BASELINE)), analyse(sweep({"steps=1": SLOWER}, BASELINE))
    assert "SGLang 0.5.13 and later" in adaptive_sentence(alone)
    levels = (*alone.levels, dataclasses.replace(loaded.levels[0], concurrency=8))
    assert "SGLang 0.5.14 and later" in adaptive_sentence(dataclasses.replace(alone, levels=levels))
