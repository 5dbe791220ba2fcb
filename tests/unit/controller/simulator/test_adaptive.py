"""Adaptive draft steps: tiers, their choice, and the lines of a switch."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from controller.simulator.site.sglang.adaptive import AdaptiveSteps, Tier, candidate_steps

DATA = Path(__file__).parents[3] / "data"


def tier(start: int, *candidates: int, **settings: Any) -> Tier:
    return Tier(start, {"candidate_steps": list(candidates), **settings})


def after(changing: Tier, accepted: Sequence[int], verify_steps: int) -> int:
    for _ in range(verify_steps):
        changing.observe(accepted)
    return changing.steps


def steps(log: list[str], **fields: Any) -> AdaptiveSteps:
    given: dict[str, Any] = {
        "speculative_num_steps": 7,
        "speculative_adaptive_config": None,
        "cuda_graph_bs_decode": None,
        "disable_cuda_graph": False,
    }
    return AdaptiveSteps({**given, **fields}, log.append)


def test_the_candidates_of_every_tier_count(tmp_path: Path) -> None:
    assert candidate_steps(None) == [0, 1, 3, 7]
    path = tmp_path / "tiers.json"
    path.write_text(json.dumps({"note": "x", "1": {"candidate_steps": [5, 2]}, "16": {"candidate_steps": [1, 2]}}))
    assert candidate_steps(str(path)) == [1, 2, 5]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"1": {"candidate_steps": []}}, r"BS 1: candidate_steps must be a list of non-negative ints, got \[\]"),
        ({"8": {"candidate_steps": [1, -1]}}, "BS 8: candidate_steps must be a list"),
        ({"1": {}}, "got None"),
        ({"candidate_steps": [1]}, r"at least one integer-string BS key.*Got keys: \['candidate_steps'\]"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, config: dict[str, Any], sentence: str) -> None:
    path = tmp_path / "tiers.json"
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=sentence):
        candidate_steps(str(path))


def test_a_start_that_is_no_candidate_begins_in_the_middle() -> None:
    assert tier(7, 1, 3, 7).steps == 7
    assert tier(7, 0, 1, 3).steps == 1
    assert tier(7, 0, 1).steps == 1


def test_nothing_changes_in_the_first_ten_verify_steps_and_then_every_fifth_may() -> None:
    changing = tier(7, 1, 3, 7)
    assert after(changing, [0], 14) == 7
    assert after(changing, [0], 1) == 1


def test_steps_follow_the_mean_of_what_is_accepted() -> None:
    assert after(tier(7, 1, 3, 7), [2], 15) == 3
    assert after(tier(3, 1, 3, 7), [3], 15) == 7
    assert after(tier(3, 1, 3, 7), [2, 1], 50) == 3
    # What other requests of the batch accept counts as much.
    assert after(tier(3, 1, 3, 7), [3, 3, 0], 50) == 3


def test_a_tier_of_one_candidate_keeps_it() -> None:
    assert after(tier(0, 0), [0], 100) == 0
    assert after(tier(2, 2), [2], 100) == 2


def test_without_drafts_the_next_candidate_is_tried() -> None:
    changing = tier(0, 0, 1, 3)
    assert after(changing, [0], 15) == 1
    assert changing.mean_accepted == 0.0
    # It is given up again when nothing of it is accepted.
    assert after(changing, [0], 5) == 0


def test_hysteresis_weight_interval_and_warm_up_are_settings() -> None:
    eager = {"warmup_batches": 0, "update_interval": 1, "ema_alpha": 1.0}
    assert after(tier(3, 1, 3, **eager), [1], 1) == 3  # above 0.5 - 0.25
    assert after(tier(3, 1, 3, **eager, down_hysteresis=0.5), [1], 1) == 1
    assert after(tier(1, 1, 3, **eager), [1], 1) == 3
    assert after(tier(1, 1, 3, **eager, up_hysteresis=0.6), [1], 1) == 1


def test_a_ceiling_holds_steps_down_and_never_stops_a_rise() -> None:
    eager = {"warmup_batches": 0, "update_interval": 1, "ema_alpha": 1.0, "ceiling_coeff": 1.0}
    assert after(tier(7, 1, 3, 7, **eager), [3], 1) == 3
    assert after(tier(3, 1, 3, 7, **eager), [3], 1) == 7


def test_each_batch_size_has_its_tier_and_a_switch_is_logged() -> None:
    log: list[str] = []
    adaptive = steps(log)
    adaptive.announce()
    used = []
    for batch in (1, 7, 8, 31, 32, 64, 200, 1):
        adaptive.begin(batch)
        used.append(adaptive.steps)
    assert used == [7, 7, 1, 1, 1, 0, 0, 7]
    assert log == [
        "AdaptiveSpeculativeParams initialized: steps=7, candidate_steps=[1, 3, 7]",
        "Switch adaptive runtime state: steps 7 -> 1, draft_tokens 8 -> 2",
        "Switch adaptive runtime state: steps 1 -> 0, draft_tokens 2 -> 1",
        "Switch adaptive runtime state: steps 0 -> 7, draft_tokens 1 -> 8",
    ]


def test_what_is_learnt_is_logged_and_used_at_once() -> None:
    log: list[str] = []
    adaptive = steps(log)
    for _ in range(15):
        adaptive.begin(1)
        adaptive.verified([2])
    assert adaptive.steps == 3
    assert log == [
        "Adaptive spec params updated: steps 7 -> 3 (ema_accept_len=2.14)",
        "Switch adaptive runtime state: steps 7 -> 3, draft_tokens 8 -> 4",
    ]


def test_a_batch_is_rounded_up_to_a_graph_that_the_command_line_names() -> None:
    assert steps([])._tier(5).candidates == [1, 3, 7]
    assert steps([], cuda_graph_bs_decode=[1, 8])._tier(5).candidates == [0, 1, 3]
    assert steps([], cuda_graph_bs_decode=[1, 8], disable_cuda_graph=True)._tier(5).candidates == [1, 3, 7]


def test_every_decision_of_the_real_server_is_made_alike() -> None:
    """``Tier`` beside what SGLang 0.5.15 logged on an H200: steps before, mean accepted drafts, steps after."""
    log = (DATA / "sglang-0.5.15" / "adaptive-eager-prefill.log").read_text()
    decided = re.findall(r"params updated: steps (\d+) -> (\d+) \(ema_accept_len=([\d.]+)\)", log)
    assert len(decided) == 5
    for before, chosen, mean in decided:
        adapting = tier(int(before), 1, 3, 7, down_hysteresis=-0.25, update_interval=1, warmup_batches=0, ema_alpha=1.0)
        assert adapting.observe([float(mean)])  # type: ignore[list-item]  # weight 1: the mean is what is observed
        assert adapting.steps == int(chosen)
