import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from controller.simulator.profiles import profile_settings
from controller.simulator.site.sglang.arguments import parse
from controller.simulator.site.sglang.decoding import DecodeLoop, Request
from controller.simulator.site.sglang.generation import Generator, RequestState
from controller.simulator.site.sglang.metrics import Metrics
from controller.simulator.site.sglang.node import Node
from controller.simulator.site.sglang.resolution import resolve
from controller.simulator.site.sglang.speed import Acceptance, SpeedModel, noise
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
def test_tokens_steps_and_histogram_agree_but_for_what_the_last_step_made_too_many(limit: int, steps: int) -> None:
    running = request(limit)
    running.completion_tokens = 1
    running.acceptance = Acceptance(
        SpeedModel.from_dict(profile_settings("pays")["speed"]), steps, random.Random(limit)
    )
    made = []
    while running.finish_reason() is None:
        made.append(running.accept(steps))
    accepted = sum(drafts * count for drafts, count in enumerate(running.histogram))
    assert running.completion_tokens == limit
    assert sum(running.histogram) == running.verify_steps == len(made)
    assert running.verify_steps + accepted == sum(made)
    assert 0 <= sum(made) - (limit - 1) < made[-1]


def test_a_request_stops_at_its_natural_end() -> None:
    running = request(limit=100, stop_at=2)
    running.completion_tokens = 2
    assert running.finish_reason() == {"type": "stop", "matched": 163586}


def loop(*flags: str, log: list[str], model: Path) -> DecodeLoop:
    (model / "config.json").write_text("{}")
    fields = parse(["--model-path", str(model), "--decode-log-interval", "4", *flags])
    resolve(fields, lambda _: None)
    speed = profile_settings("fast")["speed"]
    settings: dict[str, Any] = {"gpus": [], "memory": {}, "phases": {}, "speed": speed}
    return DecodeLoop(
        fields,
        Node(model, settings),
        launch=1,
        info={"max_running_requests": 8, "max_total_num_tokens": 1000},
        connection=Pipe(),  # type: ignore[arg-type]
        log=log.append,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("flags", "steps"), [((), 8), (("--disable-overlap-schedule",), 7)])
def test_with_overlap_scheduling_a_finished_request_is_in_one_more_step(
    tmp_path: Path, flags: tuple[str, ...], steps: int
) -> None:
    log: list[str] = []
    serving = loop(*flags, log=log, model=tmp_path)
    message = {"rid": "r", "prompt_tokens": 3, "cached_tokens": 0, "limit": 8, "stop_at": 99, "stream": False}
    serving._enqueue({**message, "warmup": False, "probe": False})
    serving._begin_step()
    while serving._busy:
        serving._end_step()
        serving._begin_step()
    assert serving._statistics.snapshot()["forwards"] == steps
    lines = [line.partition(", token usage")[0] for line in log if line.startswith("Decode batch")]
    # The line of the step too many shows a request that holds no tokens any more.
    assert (
        lines == ["Decode batch, #running-req: 1, #token: 8", "Decode batch, #running-req: 1, #token: 0"][: steps // 4]
    )


def test_the_step_that_a_flush_or_a_departure_overtakes_counts_for_nothing(tmp_path: Path) -> None:
    log: list[str] = []
    serving = loop(log=log, model=tmp_path)
    message = {"rid": "r", "prompt_tokens": 3, "cached_tokens": 0, "limit": 9, "stop_at": 99, "stream": False}
    serving._enqueue({**message, "warmup": False, "probe": False})
    serving._begin_step()
    serving._end_step()
    serving._begin_step()
    serving._receive({"kind": "abort", "rid": "r"})
    serving._end_step()
    serving._begin_step()
    assert not serving._busy
    assert serving._statistics.snapshot()["forwards"] == 0


def test_prefills_vary_without_a_graph_between_launches_and_within_one(tmp_path: Path) -> None:
    assert loop(log=[], model=tmp_path)._eager_factor() == 1.0
    log: list[str] = []
    serving = loop("--disable-prefill-cuda-graph", log=log, model=tmp_path)
    factors = [math.log(serving._eager_factor()) for _ in range(500)]
    assert statistics.stdev(factors) == pytest.approx(0.2, rel=0.1)
    # The launch's own factor stays.
    launch = noise(serving._node.random("eager prefill", 1), 0.2)
    assert statistics.mean(factors) == pytest.approx(math.log(launch), abs=0.03)
    serving._enqueue(
        {
            "rid": "r",
            "prompt_tokens": 3,
            "cached_tokens": 0,
            "limit": 1,
            "stop_at": 99,
            "stream": False,
            "warmup": False,
            "probe": False,
        }
    )
    serving._begin_step()
    assert "cuda graph: False, input throughput" in log[0]


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


def counted(stream: bool, limit: int) -> str:
    """Return /metrics after one request whose outputs came as the scheduler sends them."""
    metrics = Metrics("m", None, {})
    generator = Generator(Pipe(), None, "default", 1000, metrics)  # type: ignore[arg-type]
    state = RequestState("rid", [1, 2, 3], Continuation([1, 2, 3]), 0, probe=False)
    outputs = range(1, limit + 1) if stream else (50, limit)
    for made in outputs:
        update = {"completion_tokens": made, "finish_reason": None, "verify_steps": 0, "decode_seconds": 1.0}
        generator._count(state, update, finished=made == limit)
        generator._answer(state, update)
    return metrics.render({})


@pytest.mark.parametrize(("stream", "pauses"), [(True, 69), (False, 20)])
def test_pauses_between_outputs_are_counted_as_they_come(stream: bool, pauses: int) -> None:
    text = counted(stream, 70)
    assert f'sglang:inter_token_latency_seconds_count{{engine_type="unified",model_name="m"}} {pauses}.0' in text
    assert 'sglang:time_to_first_token_seconds_count{engine_type="unified",model_name="m"} 1.0' in text
    assert 'sglang:generation_tokens_total{engine_type="unified",model_name="m"} 70.0' in text
