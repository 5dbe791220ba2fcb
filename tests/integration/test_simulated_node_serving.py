"""A real server process of the simulated node, asked over real HTTP."""

import asyncio
import itertools
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from controller.simulator import Node, create_node
from tests.integration.simulated_launch import Launch, gpu_memory_used, wait_for

SCALE = 0.05


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    made = create_node(tmp_path_factory.mktemp("serving") / "node", profile="fast", time_scale=SCALE, gpus=2)
    made.configure(speed={"launch_sd": 0.0, "run_sd": 0.0, "request_sd": 0.0, "prompt_sd": 0.0})
    return made


@pytest.fixture(scope="module")
def baseline(node: Node) -> Iterator[Launch]:
    with Launch(node, "--enable-metrics") as launch:
        yield launch.ready()


@pytest.fixture(scope="module")
def speculative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    made = create_node(tmp_path_factory.mktemp("speculative") / "node", profile="fast", time_scale=SCALE, gpus=2)
    made.configure(speed={"launch_sd": 0.0, "run_sd": 0.0, "request_sd": 0.0, "prompt_sd": 0.0})
    with Launch(made, "--context-length", "131072", "--enable-metrics", steps=3) as launch:
        yield launch.ready()


def test_speed_without_speculation(baseline: Launch) -> None:
    meta = baseline.generate(tokens=512)["meta_info"]
    assert meta["completion_tokens"] == 512
    assert meta["decode_throughput"] * SCALE == pytest.approx(1000 / 12, rel=0.01)
    assert not [key for key in meta if key.startswith("spec_")]


def test_speed_with_speculation(speculative: Launch) -> None:
    meta = speculative.generate(tokens=512)["meta_info"]
    cycle = (512 - 1) / meta["decode_throughput"] / SCALE / meta["spec_verify_ct"]
    assert cycle == pytest.approx(0.030, rel=0.01)
    assert meta["spec_verify_ct"] == sum(meta["spec_correct_drafts_histogram"])
    # The last step may accept more drafts than are kept.
    assert 0 <= 1 + meta["spec_verify_ct"] + meta["spec_num_correct_drafts"] - meta["completion_tokens"] <= 3


def test_wall_clock_agrees_with_the_schedule(baseline: Launch) -> None:
    """Errors of sleeping do not add up: 1000 steps take 1000 times a step, within 1 % (the better of three tries)."""
    errors = []
    for attempt in range(3):
        events, stamps = 0, []
        sampling = {"max_new_tokens": 1000, "temperature": 0, "ignore_eos": True}
        body = {"text": f"again {attempt}", "sampling_params": sampling, "stream": True}
        with baseline.client.stream("POST", "/generate", json=body) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    events += 1
                    stamps.append(time.monotonic())
        assert events == 1000
        errors.append(abs((stamps[-1] - stamps[0]) / (999 * 0.012 * SCALE) - 1))
    assert min(errors) < 0.01


def test_greedy_text_is_the_same_in_all_arms(baseline: Launch, speculative: Launch) -> None:
    assert baseline.generate("A question", 100)["text"] == speculative.generate("A question", 100)["text"]


def test_stream_is_cumulative_and_ends_with_done(speculative: Launch) -> None:
    events = speculative.stream(64)
    counts = [event["meta_info"]["completion_tokens"] for event in events]
    assert counts[0] == 1
    assert counts == sorted(set(counts))
    assert counts[-1] == 64
    assert max(later - earlier for earlier, later in itertools.pairwise(counts)) <= 4
    assert events[-1]["text"].startswith(events[0]["text"])
    assert [event["meta_info"]["finish_reason"] for event in events[:-1]] == [None] * (len(events) - 1)


def test_eos_is_honoured_unless_it_is_ignored(baseline: Launch) -> None:
    sampling = {"max_new_tokens": 3000, "temperature": 0}
    answer = baseline.client.post("/generate", json={"text": "x", "sampling_params": sampling}).json()
    assert answer["meta_info"]["finish_reason"]["type"] == "stop"
    assert answer["meta_info"]["completion_tokens"] < 1300


def test_a_repeated_prompt_is_cached_until_flushed(baseline: Launch) -> None:
    prompt = {"input_ids": [5, 6, 7, 8], "sampling_params": {"max_new_tokens": 2}}

    def cached() -> int:
        return int(baseline.client.post("/generate", json=prompt).json()["meta_info"]["cached_tokens"])

    assert [cached(), cached()] == [0, 3]
    assert baseline.client.post("/flush_cache").status_code == 200
    assert cached() == 0


def test_flush_is_refused_while_a_request_runs(baseline: Launch) -> None:
    body = {"text": "long", "stream": True, "sampling_params": {"max_new_tokens": 2000, "ignore_eos": True}}
    with baseline.client.stream("POST", "/generate", json=body) as response:
        lines = response.iter_lines()  # kept: closing the iterator would close the connection
        next(lines)
        assert httpx.post(f"{baseline.client.base_url}/flush_cache").status_code == 400
    # The client left: the request is aborted and the cache can be flushed.
    wait_for(lambda: baseline.client.post("/flush_cache").status_code == 200, "the aborted request to end")


def test_a_client_that_leaves_frees_its_request(baseline: Launch) -> None:
    body = {"text": "leave", "sampling_params": {"max_new_tokens": 100_000, "ignore_eos": True}}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{baseline.client.base_url}/generate", json=body, timeout=0.3)
    wait_for(lambda: baseline.client.post("/flush_cache").status_code == 200, "the request of the client that left")


def test_health_and_information(baseline: Launch) -> None:
    for path in ("/health", "/health_generate", "/ping"):
        assert baseline.client.get(path).status_code == 200
    assert baseline.client.get("/model_info").json()["architectures"] == ["KimiK25ForConditionalGeneration"]
    assert baseline.client.get("/get_model_info").json() == baseline.client.get("/model_info").json()
    info = baseline.client.get("/get_server_info").json()
    assert info["version"] == "0.5.15"
    assert info["simulated"] == {"time_scale": SCALE, "profile": "fast"}
    assert info["speculative_algorithm"] is None
    assert baseline.client.get("/nothing").status_code == 404
    assert baseline.client.get("/generate").status_code == 405


def test_openai_completions(baseline: Launch) -> None:
    body = {"model": "m", "prompt": "Hi", "max_tokens": 5, "temperature": 0}
    answer = baseline.client.post("/v1/completions", json=body).json()
    assert answer["usage"]["completion_tokens"] == 5
    assert answer["choices"][0]["finish_reason"] == "length"
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    body = {"model": "m", "messages": messages, "max_tokens": 5, "temperature": 0}
    chat = baseline.client.post("/v1/chat/completions", json=body).json()
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    with baseline.client.stream("POST", "/v1/chat/completions", json=body) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    chunks = [httpx.Response(200, text=line).json() for line in lines[:-1]]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert text == chat["choices"][0]["message"]["content"]
    assert chunks[-1]["usage"]["completion_tokens"] == 5
    assert baseline.client.get("/v1/models").json()["data"][0]["owned_by"] == "sglang"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/generate", {}),
        ("/generate", {"input_ids": "words"}),
        ("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 0}}),
        ("/v1/chat/completions", {"messages": []}),
    ],
)
def test_bad_requests_are_400(baseline: Launch, path: str, body: dict[str, object]) -> None:
    assert baseline.client.post(path, json=body).status_code == 400


def test_128_connections_at_once(baseline: Launch) -> None:
    async def load() -> list[int]:
        limits = httpx.Limits(max_connections=128)
        async with httpx.AsyncClient(base_url=baseline.client.base_url, limits=limits, timeout=60) as client:

            async def one(number: int) -> int:
                sampling = {"max_new_tokens": 20, "ignore_eos": True}
                body = {"text": f"prompt {number}", "sampling_params": sampling}
                return int((await client.post("/generate", json=body)).json()["meta_info"]["completion_tokens"])

            return await asyncio.gather(*(one(number) for number in range(128)))

    assert asyncio.run(load()) == [20] * 128


def test_average_acceptance_appears_after_40_forwards(speculative: Launch) -> None:
    speculative.generate(tokens=256)
    (state,) = speculative.client.get("/server_info").json()["internal_states"]
    assert state["avg_spec_accept_length"] == pytest.approx(1.8, abs=0.25)
    assert state["effective_max_running_requests_per_dp"] == 48
    speculative.client.post("/flush_cache")
    speculative.generate(tokens=2)
    (state,) = speculative.client.get("/server_info").json()["internal_states"]
    assert "avg_spec_accept_length" not in state


def test_the_same_seed_repeats_a_launch(tmp_path_factory: pytest.TempPathFactory) -> None:
    histograms = []
    for name in ("a", "b"):
        made = create_node(tmp_path_factory.mktemp(name) / "node", profile="fast", gpus=1, seed=11)
        with Launch(made, "--context-length", "4096", steps=2, tp_size=1) as launch:
            histograms.append(launch.ready().generate(tokens=200)["meta_info"]["spec_accept_histogram"])
    assert histograms[0] == histograms[1]


def test_api_key_closes_all_but_health_and_metrics(node: Node, baseline: Launch) -> None:
    del baseline  # its GPUs are in use: this launch gets a node of its own
    made = create_node(node.path.parent / "keyed", profile="fast", gpus=1)
    with Launch(made, "--api-key", "secret", tp_size=1) as launch:
        launch.ready()
        refused = launch.client.get("/server_info")
        assert (refused.status_code, refused.json()) == (401, {"error": "Unauthorized"})
        assert launch.client.post("/generate", json={"text": "x"}).status_code == 401
        assert launch.client.get("/health").status_code == 200
        assert launch.client.get("/metrics").status_code == 404  # open, but switched off
        allowed = launch.client.get("/server_info", headers={"authorization": "Bearer secret"})
        assert allowed.json()["api_key"] == "secret"


def test_a_refused_stream_begins_with_200_as_its_head_is_sent_first(baseline: Launch) -> None:
    body = {"input_ids": [1, 2], "stream": True, "sampling_params": {"max_new_tokens": 0}}
    with baseline.client.stream("POST", "/generate", json=body) as response:
        lines = [line for line in response.iter_lines() if line]
    assert response.status_code == 200
    assert [json.loads(line.removeprefix("data: "))["error"]["code"] for line in lines[:-1]] == [400]
    assert lines[-1] == "data: [DONE]"


def test_adaptive_steps_follow_what_is_accepted(tmp_path: Path) -> None:
    made = create_node(tmp_path / "node", profile="fast", time_scale=SCALE, gpus=1)
    # Three of four drafts are right at first, hardly any after the first two.
    made.configure(speed={"acceptance": [0.9, 0.9, 0.1], "request_sd": 0.0, "prompt_sd": 0.0, "launch_sd": 0.0})
    flags = ("--context-length", "131072", "--enable-metrics", "--speculative-adaptive", "--decode-log-interval", "20")
    with Launch(made, *flags, steps=7, tp_size=1) as launch:
        meta = launch.ready().generate(tokens=800)["meta_info"]
        cycle = (800 - 1) / meta["decode_throughput"] / SCALE / meta["spec_verify_ct"]
        info = launch.client.get("/server_info").json()
        metrics = launch.client.get("/metrics").text
        assert "AdaptiveSpeculativeParams initialized: steps=7, candidate_steps=[1, 3, 7]" in launch.log
        assert "Switch adaptive runtime state: steps 7 -> 3, draft_tokens 8 -> 4" in launch.log
        assert re.search(r"Adaptive spec params updated: steps 7 -> 3 \(ema_accept_len=\d\.\d\d\)", launch.log)
    # Nearly all verify steps took C(3) = 30 ms, the first ones C(7) = 42 ms.
    assert 0.030 < cycle < 0.033
    assert max(index for index, count in enumerate(meta["spec_correct_drafts_histogram"]) if count) <= 7
    assert meta["spec_num_proposed_drafts"] == 7 * meta["spec_verify_ct"]
    (state,) = info["internal_states"]
    assert (info["speculative_num_steps"], state["speculative_num_steps"]) == (7, 3)
    assert state["max_speculative_num_draft_tokens"] == 8
    assert re.search(r"^sglang:spec_num_steps\{.*\} 3\.0$", metrics, re.MULTILINE)
    assert re.search(r"^sglang:spec_num_draft_tokens\{.*\} 4\.0$", metrics, re.MULTILINE)


def test_a_server_takes_its_time_to_end_and_holds_its_memory_meanwhile(tmp_path: Path) -> None:
    made = create_node(tmp_path / "node", profile="fast", gpus=1)
    made.configure(shutdown_scale=0.2)
    with Launch(made, tp_size=1) as launch:
        launch.ready().generate(tokens=2)
        launch.process.terminate()
        wait_for(lambda: "Gracefully exiting... Remaining number of requests 0." in launch.log, "the end to begin")
        began = time.monotonic()
        assert gpu_memory_used(made)[0] > 70_000
        assert launch.ended() == 137
        assert 0.5 < time.monotonic() - began < 5.0  # 3 s of the real one are 0.6 s
        assert gpu_memory_used(made)[0] < 1000
