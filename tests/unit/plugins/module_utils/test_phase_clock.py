from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import phase_clock
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.phase_clock import (
    DEFAULT_LIMITS_S,
    PhaseHistory,
    PhaseLimitError,
    history_key,
    phase_limits,
    still_for_s,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import PHASES, Phase

if TYPE_CHECKING:
    from pathlib import Path

START = [Phase("starting", 0.0, 10.0), Phase("weights", 10.0, 110.0), Phase("target_graphs", 110.0, 140.0)]


def test_every_phase_has_a_limit() -> None:
    assert list(DEFAULT_LIMITS_S) == list(PHASES)


def test_limits_are_changed_one_by_one() -> None:
    limits = phase_limits({"weights": "7200", "warmup": 5})
    assert (limits["weights"], limits["warmup"], limits["starting"]) == (7200.0, 5.0, DEFAULT_LIMITS_S["starting"])


@pytest.mark.parametrize("wanted", [{"graphs": 1}, {"weights": 0}, {"weights": "soon"}, {"weights": None}])
def test_bad_limits(wanted: dict[str, object]) -> None:
    with pytest.raises(PhaseLimitError, match="phase_limits"):
        phase_limits(wanted)


def test_what_stands_still() -> None:
    phases = [Phase("starting", 0.0, 10.0), Phase("weights", 10.0)]
    assert still_for_s(phases, 100.0, 80.0) == 80.0
    assert still_for_s(phases, 100.0, 500.0) == 90.0
    assert still_for_s(phases, 5.0, 500.0) == 0.0


def test_estimate(tmp_path: Path) -> None:
    history = PhaseHistory(str(tmp_path))
    key = history_key("0.5.15", 8, speculative=True)
    now = [Phase("starting", 0.0, 12.0), Phase("weights", 12.0)]
    assert history.eta_s("|tp8|speculative", now, 30.0) is None
    history.add(key, "a", START)
    history.add(key, "a", START)
    again = PhaseHistory(str(tmp_path))
    # 18 s of 100 s of weights are over; the graphs took 30 s.
    assert again.eta_s("|tp8|speculative", now, 30.0) == 112.0
    assert again.eta_s("|tp8|speculative", now, 500.0) == 30.0
    assert again.eta_s("|tp8|baseline", now, 30.0) is None
    assert again.eta_s("|tp8|speculative", [Phase("serving", 1.0)], 30.0) is None
    assert len(json.loads((tmp_path / "phase_history.json").read_text())["launches"][key]) == 1


def test_history_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase_clock, "KEPT_KEYS", 2)
    history = PhaseHistory(str(tmp_path))
    for number in range(20):
        history.add("k", str(number), START)
    for key in ("l", "m"):
        history.add(key, "x", START)
    content = json.loads((tmp_path / "phase_history.json").read_text())["launches"]
    assert list(content) == ["l", "m"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"launches": 3}', '{"launches": {"k|tp8|x": [7, {"launch_id": "a"}]}}']
)
def test_a_file_that_is_no_good_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "phase_history.json").write_text(text)
    assert PhaseHistory(str(tmp_path)).eta_s("|tp8|x", [Phase("starting", 0.0)], 1.0) is None


def test_a_directory_that_cannot_be_written_costs_the_estimate_only(tmp_path: Path) -> None:
    there = str(tmp_path / "none" / "there")
    PhaseHistory(there).add("k", "a", START)
    assert PhaseHistory(there).eta_s("k", [Phase("starting", 0.0)], 1.0) is None


def test_key_of_what_is_not_known() -> None:
    assert history_key("", None, speculative=False) == "?|tp?|baseline"
