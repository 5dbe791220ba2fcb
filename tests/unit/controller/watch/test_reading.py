"""From the answers of a server to figures: the real /metrics and /server_info of SGLang 0.5.15, and odd ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.watch.exposition import Sample, read_samples
from controller.watch.reading import WANTED, Reading, facts_from, from_metrics, from_server_info

DATA = Path(__file__).parents[3] / "data" / "sglang-0.5.15"
METRICS = (DATA / "metrics-eagle3.txt").read_text(encoding="utf-8")


def test_a_real_answer() -> None:
    reading = from_metrics(METRICS)
    assert reading == Reading(tokens_per_s=212.4621207924276, acceptance_length=1.0, running=1, queued=0)
    assert reading.busy
    assert reading.cycle_s == pytest.approx(1 / 212.46, rel=1e-4)


def test_every_name_that_is_read_is_exported_by_the_real_server() -> None:
    assert {sample.name for sample in read_samples(METRICS, WANTED)} == WANTED


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        ('a{b="c"} 1.5', Sample("a", 1.5, {"b": "c"})),
        ("a 2", Sample("a", 2.0)),
        ("a 2 1700000000000", Sample("a", 2.0)),
        (r'a{b="x\"}\\ \n",c="2"} 3e2', Sample("a", 300.0, {"b": 'x"}\\ \n', "c": "2"})),
    ],
)
def test_lines(line: str, sample: Sample) -> None:
    assert read_samples(f"# HELP a b\n{line}\nother 1\n", {"a"}) == [sample]


@pytest.mark.parametrize("line", ["a", "a{", 'a{b="c"}', "a x", "<html>a</html>"])
def test_lines_that_are_no_sample(line: str) -> None:
    assert read_samples(line, {"a"}) == []


def test_ranks_of_one_replica_count_once_and_replicas_add_up() -> None:
    text = "\n".join(
        f'{name}{{dp_rank="{dp}",tp_rank="{tp}"}} {value}'
        for dp in (0, 1)
        for tp in (0, 1)
        for name, value in (
            ("sglang:gen_throughput", 50),
            ("sglang:spec_accept_length", 2 + dp),
            ("sglang:num_running_reqs", 3),
        )
    )
    assert from_metrics(text) == Reading(tokens_per_s=100.0, acceptance_length=2.5, running=6, queued=None)


def test_values_that_are_no_numbers_are_left_out() -> None:
    assert from_metrics("sglang:gen_throughput NaN\nsglang:spec_accept_length 0.0\n") == Reading()


def test_a_server_without_metrics_says_a_little() -> None:
    info = json.loads((DATA / "server_info-eagle3.json").read_text())
    reading = from_server_info(info)
    state = info["internal_states"][0]
    assert reading.tokens_per_s == state["last_gen_throughput"]
    assert reading.acceptance_length == state["avg_spec_accept_length"]
    assert reading.running is None
    assert reading.cycle_s is None
    assert from_server_info({}) == Reading()


def test_facts() -> None:
    facts = facts_from(json.loads((DATA / "server_info-eagle3.json").read_text()))
    assert (facts.algorithm, facts.steps, facts.version) == ("EAGLE3", 3, "0.5.15")
    assert not facts.simulated
    simulated = facts_from({"simulated": {"time_scale": 0.1}})
    assert simulated.simulated
    assert simulated.time_scale == 0.1


def test_a_simulated_server_is_read_in_unscaled_time() -> None:
    assert Reading(tokens_per_s=600.0).unscaled(0.1).tokens_per_s == pytest.approx(60.0)
    assert Reading().unscaled(0.1) == Reading()


def test_an_idle_server_has_no_cycle() -> None:
    assert Reading(tokens_per_s=60.0, acceptance_length=2.0, running=0).cycle_s is None
    assert Reading(tokens_per_s=60.0, acceptance_length=1.8, running=2).cycle_s == pytest.approx(0.06)
    assert Reading(tokens_per_s=80.0, running=1).cycle_s == pytest.approx(0.0125)
