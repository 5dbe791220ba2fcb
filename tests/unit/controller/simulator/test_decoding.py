import random
from typing import Any

import pytest

from controller.simulator.profiles import profile_settings
from controller.simulator.site.sglang.decoding import Request
from controller.simulator.site.sglang.generation import Generator, RequestState
from controller.simulator.site.sglang.metrics import Metrics
from controller.simulator.site.sglang.speed import Acceptance, SpeedModel
from controller.simulator.site.sglang.text import Continuation


def request(limit: int = 256, stop_at: int = 10_000) -> Request:
    return Request(
        {"rid": "r", "prompt_tokens": 3, "cached_tokens": 0, "limit": limit, "stop_at": stop_at, "stream": False}
    )


def test_without_speculation_a_step_is_a_token() -> None:
    running = request(limit=5)
    running.completion_tokens = 1
    assert [running.accept() for _ in range(4)] == [1, 1, 1, 1]
    assert running.finish_reason() == {"type": "length", "length": 5}
    assert (running.verify_steps, running.histogram) == (0, [])


@pytest.mark.parametrize("limit", [2, 3, 17, 256, 1000])
@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_tokens_steps_and_histogram_always_agree(limit: int, steps: int) -> None:
    running = request(limit)
    running.completion_tokens = 1
    running.acceptance = Acceptance(
        SpeedModel.from_dict(profile_settings("pays")["speed"]), steps, random.Random(limit)
    )
    while running.finish_reason() is None:
        running.accept(steps)
    accepted = sum(drafts * count for drafts, count in enumerate(running.histogram))
    assert running.completion_tokens == limit
    assert sum(running.histogram) == running.verify_steps
    assert running.completion_tokens - 1 == running.verify_steps + accepted


def test_a_request_stops_at_its_natural_end() -> None:
    running = request(limit=100, stop_at=2)
    running.completion_tokens = 2
    assert running.finish_reason() == {"type": "stop", "matched": 163586}


class Pipe:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


def answer(steps: int | None, update: dict[str, Any]) -> dict[str, Any]:
    generator = Generator(Pipe(), steps, "default", 1000, Metrics("m", None, {}))  # type: ignore[arg-type]
    state = RequestState("rid", [1, 2, 3], Continuation([1, 2, 3]), 0, probe=False)
    return generator._answer(state, update)


UPDATE = {"completion_tokens": 256, "finish_reason": {"type": "length", "length": 256}, "decode_seconds": 1.0}


def test_speculative_fields_follow_the_definitions() -> None:
    meta = answer(3, {**UPDATE, "verify_steps": 140, "histogram": [60, 50, 25, 5]})["meta_info"]
    assert meta["spec_accept_length"] == pytest.approx(256 / 140)
    assert meta["spec_num_correct_drafts"] == 50 + 2 * 25 + 3 * 5
    assert meta["spec_num_proposed_drafts"] == 420
    assert meta["spec_accept_rate"] == pytest.approx(115 / 420)
    assert meta["decode_throughput"] == pytest.approx(255.0)


@pytest.mark.parametrize("steps", [None, 3])
def test_no_speculative_fields_without_a_verify_step(steps: int | None) -> None:
    meta = answer(steps, {**UPDATE, "verify_steps": 0, "histogram": []})["meta_info"]
    assert not [key for key in meta if key.startswith("spec_")]


def test_a_server_that_started_without_drafts_counts_no_proposals() -> None:
    meta = answer(0, {**UPDATE, "verify_steps": 140, "histogram": [60, 50, 25, 5]})["meta_info"]
    assert [key for key in meta if key.startswith("spec_")] == [
        "spec_correct_drafts_histogram",
        "spec_accept_histogram",
    ]


def test_what_a_prompt_shares_with_an_earlier_one_is_cached() -> None:
    generator = Generator(Pipe(), None, "default", 1000, Metrics("m", None, {}))  # type: ignore[arg-type]
    prompts = ([1, 2, 3, 4], [1, 2, 9], [0, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2])
    assert [generator._cached(prompt) for prompt in prompts] == [0, 2, 0, 3, 4, 1]
