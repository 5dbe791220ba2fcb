"""The simulated server beside samples of a real SGLang 0.5.15 (``tests/data/sglang-0.5.15``)."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.simulator import Node, create_node
from tests.integration.simulated_launch import Launch

SAMPLES = Path(__file__).parent.parent / "data" / "sglang-0.5.15"
# The samples' target: the warm-up of a model that sees images would be another request.
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "max_position_embeddings": 16384}
# With these the sweep of 2026-11-30 was made on an H200: no graphs for prefills, batches up to 8.
EAGER_PREFILL = ("--disable-prefill-cuda-graph", "--cuda-graph-max-bs-decode", "8", "--max-running-requests", "8")
# Requests of whoever made the samples, and the frame that Python shows around a warning.
NOT_OURS = re.compile(r"GET /health |GET /server_info|GET /metrics|warnings\.warn")
# Numbers that follow from the arguments alone.
FIXED = re.compile(
    r"(num_tokens_per_bs=\d+, bs=\[[\d, ]+\]|steps=\d+|candidate_steps=\[[\d, ]+\]|\d+ rows but caller needs \d+"
    r"|\", line \d+, in )"
)


def skeleton(line: str) -> str:
    """Return a log line without what differs between two runs: times, numbers, paths, batch lists."""
    line = re.sub(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[TIME", line.rpartition("\r")[2])
    if "server_args=" in line:
        return "[TIME] server_args=" + ",".join(re.findall(r"[(\s](\w+)=", line))
    line = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", line)
    line = re.sub(r"(/[\w.-]+)+/(models/\w+)", r"/\2", line)
    line = re.sub(r"\S+/launch_server\.py:\d+", "FILE:LINE", line)
    line = re.sub(r'"\S+/sglang/srt/', '"/srt/', line)
    line = re.sub(r"\[(\d\d:\d\d<\d\d:\d\d), +[\d.]+it/s\]", "[PROGRESS]", line)
    parts = FIXED.split(line)
    parts[::2] = [re.sub(r"\d+(\.\d+)?", "N", re.sub(r"\[\d+(, \d+)*\]", "[LIST]", part)) for part in parts[::2]]
    return "".join(parts)


def skeletons(log: str) -> list[str]:
    lines = [line for line in log.split("\n") if line and not NOT_OURS.search(line)]
    return [skeleton(line) for line in lines]


def start_of(log: str) -> list[str]:
    """Return the skeletons up to the moment when the server is ready."""
    found = skeletons(log)
    return found[: found.index("[TIME] The server is fired up and ready to roll!") + 1]


def tail_of(log: str) -> list[str]:
    """Return the skeletons after that moment: a health check, one stream, the end; a flush and repeats left out."""
    found = skeletons(log)[len(start_of(log)) :]
    return list(dict.fromkeys(line for line in found if "flush" not in line))


def llama_node(path: Path) -> Node:
    made = create_node(path, profile="fast", gpus=1)
    (made.target / "config.json").write_text(json.dumps(LLAMA))
    # One shard, as in the samples.
    (made.target / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model-00001-of-000064.safetensors"}})
    )
    return made


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return llama_node(tmp_path_factory.mktemp("fidelity") / "node")


@pytest.fixture(scope="module")
def swept(node: Node) -> Node:
    """Return a machine of its own, as the GPU of the other one is in use."""
    return llama_node(node.path.parent / "swept")


@pytest.fixture(scope="module")
def speculative(node: Node) -> Iterator[Launch]:
    with Launch(node, "--enable-metrics", steps=3, tp_size=1) as launch:
        yield launch.ready()


def test_start_with_speculation(speculative: Launch) -> None:
    assert start_of(speculative.log) == start_of((SAMPLES / "eagle3-3step.log").read_text())


def test_decode_and_prefill_lines_with_speculation(speculative: Launch) -> None:
    speculative.generate(tokens=200)
    real = (SAMPLES / "eagle3-3step.log").read_text()
    for kind in ("Decode batch", "Prefill batch", '"POST /generate'):
        expected = {line for line in skeletons(real) if kind in line}
        assert {line for line in skeletons(speculative.log) if kind in line} == expected


def test_meta_info_has_the_real_keys_in_the_real_order(speculative: Launch) -> None:
    real = json.loads((SAMPLES / "generate-eagle3.json").read_text())
    answer = speculative.generate(tokens=256)
    assert list(answer) == list(real)
    assert list(answer["meta_info"]) == list(real["meta_info"])
    types = {key: type(value) for key, value in real["meta_info"].items()}
    assert {key: type(value) for key, value in answer["meta_info"].items()} == types


def test_server_info_has_the_real_keys(speculative: Launch) -> None:
    real = json.loads((SAMPLES / "server_info-eagle3.json").read_text())
    speculative.generate(tokens=256)
    info = speculative.client.get("/server_info").json()
    assert info.pop("simulated")["time_scale"] > 0
    assert set(info) == set(real)
    assert set(info["internal_states"][0]) == set(real["internal_states"][0])
    same = (
        "speculative_num_draft_tokens",
        "speculative_draft_model_revision",
        "max_running_requests",
        "max_req_input_len",
    )
    assert {key: info[key] for key in same} == {key: real[key] for key in same}


def test_metrics_have_the_real_names(speculative: Launch) -> None:
    text = speculative.client.get("/metrics").text
    described = [line for line in text.splitlines() if line.startswith("# ")]
    assert described == (SAMPLES / "metrics-names-eagle3.txt").read_text().splitlines()


def test_start_decode_and_end_without_speculation(node: Node) -> None:
    made = llama_node(node.path.parent / "baseline")
    real = (SAMPLES / "baseline.log").read_text()
    # The sample's pool holds enough for 4096 requests; the number is normalised, the list of batches is not shown.
    with Launch(made, tp_size=1) as launch:
        launch.ready().generate(tokens=200)
        launch.process.terminate()
        assert launch.ended() == 137
        simulated = launch.log
    assert start_of(simulated) == start_of(real)
    decode = {line for line in skeletons(real) if "Decode batch" in line}
    assert {line for line in skeletons(simulated) if "Decode batch" in line} == decode
    ending = [line for line in skeletons(real) if "SIGTERM" in line or "Gracefully" in line]
    assert [line for line in skeletons(simulated) if "SIGTERM" in line or "Gracefully" in line] == ending


@pytest.mark.parametrize(
    ("sample", "steps"), [("baseline-eager-prefill.log", None), ("eagle3-1step-eager-prefill.log", 1)]
)
def test_start_and_decode_without_prefill_graphs(swept: Node, sample: str, steps: int | None) -> None:
    real = (SAMPLES / sample).read_text()
    with Launch(swept, *EAGER_PREFILL, steps=steps, tp_size=1) as launch:
        assert launch.ready().client.get("/health").status_code == 200
        launch.stream(200)
        launch.process.terminate()
        assert launch.ended() == 137
        simulated = launch.log
    assert start_of(simulated) == start_of(real)
    assert tail_of(simulated) == tail_of(real)


def test_adaptive_steps_that_begin_below_the_largest_candidate(swept: Node) -> None:
    real = skeletons((SAMPLES / "adaptive-start.log").read_text())
    with Launch(swept, *EAGER_PREFILL, "--speculative-adaptive", steps=3, tp_size=1) as launch:
        assert launch.ended() == 137
        assert skeletons(launch.log) == real


def test_adaptive_steps(swept: Node) -> None:
    real = (SAMPLES / "adaptive-eager-prefill.log").read_text()
    flags = (*EAGER_PREFILL, "--cuda-graph-bs-decode", "1", "4", "8", "--speculative-adaptive")
    with Launch(swept, *flags, steps=7, tp_size=1) as launch:
        assert launch.ready().client.get("/health").status_code == 200
        launch.stream(200)
        launch.process.terminate()
        assert launch.ended() == 137
        simulated = launch.log
    assert start_of(simulated) == start_of(real)
    # When the steps change depends on what is accepted; how that is said does not.
    assert set(tail_of(simulated)) == set(tail_of(real))


def test_a_killed_scheduler_while_serving(node: Node) -> None:
    made = create_node(node.path.parent / "killed", profile="fast", gpus=1)
    with Launch(made, tp_size=1) as launch:
        launch.ready().generate(tokens=2)
        (scheduler,) = launch.schedulers()
        os.kill(scheduler, signal.SIGKILL)
        assert launch.ended() == 137
        assert skeletons(launch.log)[-5:] == skeletons((SAMPLES / "scheduler-killed.log").read_text())


def test_a_draft_with_a_shorter_context(node: Node) -> None:
    made = create_node(node.path.parent / "clash", profile="fast", gpus=1)
    with Launch(made, steps=3, tp_size=1) as launch:
        assert launch.ended() == 137
        lines = [line for line in skeletons(launch.log) if not line.startswith(("  ", "    "))]
    real = skeletons((SAMPLES / "draft-context-mismatch.log").read_text())
    expected = [line for line in real if not line.startswith(" ")]
    tail = lines[lines.index(expected[0]) :]
    assert [line.replace("KimiKNForConditionalGeneration", "LlamaForCausalLM") for line in tail] == expected
