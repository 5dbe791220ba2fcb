from __future__ import annotations

from typing import Any

import pytest

from controller.launch_progress import LaunchProgress, duration, read_progress


@pytest.mark.parametrize(
    ("progress", "waited_s", "words"),
    [
        (LaunchProgress("weights"), 0.0, ""),
        (LaunchProgress("weights", shards=(3, 64)), 0.0, ", 3 of 64 shards"),
        (LaunchProgress("draft_weights", shards=(0, 1)), 0.0, ""),
        (LaunchProgress("target_graphs", 20.0, 45.0), 0.0, ", about 20 s left, ready in about 45 s"),
        (LaunchProgress("target_graphs", 20.0, 45.0), 5.0, ", about 15 s left, ready in about 40 s"),
        (LaunchProgress("warmup", 20.0, 20.0), 0.0, ", about 20 s left"),
        (
            LaunchProgress("weights", 600.0, 700.0, (3, 9)),
            0.0,
            ", 3 of 9 shards, about 10 min left, ready in about 12 min",
        ),
        (LaunchProgress("warmup", 20.0, 20.0), 20.0, ""),
        (LaunchProgress("warmup", 20.0, 20.0), 26.0, ", longer than before"),
        (LaunchProgress("serving", 0.0, 0.0), 5.0, ""),
    ],
)
def test_words(progress: LaunchProgress, waited_s: float, words: str) -> None:
    assert progress.words(waited_s) == words


@pytest.mark.parametrize(
    "result",
    [{}, {"phase": ""}, {"phase": None}, {"phase": 3}],
)
def test_without_a_phase_there_is_nothing_to_say(result: dict[str, Any]) -> None:
    assert read_progress(result) is None


@pytest.mark.parametrize("wrong", [None, "soon", -1, True, {}])
def test_what_cannot_be_read_counts_as_not_known(wrong: object) -> None:
    result = {"phase": "weights", "phase_left_s": wrong, "eta_s": wrong, "shards": wrong}
    assert read_progress(result) == LaunchProgress("weights")


def test_times_as_people_say_them() -> None:
    assert [duration(seconds) for seconds in (4.4, 89.0, 600.0, 9000.0)] == ["4 s", "89 s", "10 min", "2.5 h"]
