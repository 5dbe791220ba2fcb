from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import (
    ContextLengthError,
    Rules,
    derive_context_length,
    parse_version,
    rules_for,
    text_config_path,
)

OLD, NEW = Rules.TRANSFORMERS_4, Rules.TRANSFORMERS_5


@pytest.mark.parametrize(
    ("config", "old", "new"),
    [
        ({}, 2048, 2048),
        ({"max_position_embeddings": 131072}, 131072, 131072),
        ({"max_position_embeddings": 8, "model_max_length": 7}, 7, 7),
        ({"max_position_embeddings": 8, "max_seq_len": None}, 8, 8),
        (
            {
                "max_position_embeddings": 8,
                "model_max_length": 6,
                "max_seq_len": 5,
                "seq_length": 4,
                "max_sequence_length": 3,
            },
            3,
            3,
        ),
        ({"max_position_embeddings": 100, "rope_scaling": {"type": "linear", "factor": 2}}, 200, 200),
        ({"max_position_embeddings": 100, "rope_scaling": {"type": "linear", "factor": 1.5}}, 150, 150),
        ({"max_position_embeddings": 100, "rope_scaling": {"type": "linear"}}, 100, 100),
        ({"max_position_embeddings": 100, "rope_scaling": {"rope_type": "llama3", "factor": 8}}, 100, 100),
        ({"max_position_embeddings": 100, "rope_scaling": {"rope_type": "yarn", "factor": 4}}, 400, 100),
        (
            {
                "max_position_embeddings": 9,
                "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 2},
            },
            9,
            9,
        ),
        ({"max_position_embeddings": 100, "rope_parameters": {"rope_type": "linear", "factor": 4}}, 100, 400),
        ({"max_position_embeddings": 100, "rope_parameters": {"rope_type": "yarn", "factor": 4}}, 100, 100),
        ({"text_config": {"max_position_embeddings": 7}, "max_position_embeddings": 1}, 7, 7),
    ],
)
def test_length_by_each_set_of_rules(config: dict[str, Any], old: int, new: int) -> None:
    assert derive_context_length(config, OLD).length == old
    assert derive_context_length(config, NEW).length == new


def test_order_of_the_text_configs_differs() -> None:
    config: dict[str, Any] = {name: {} for name in ("text_config", "llm_config", "language_config", "thinker_config")}
    found = []
    for rules in (OLD, NEW):
        left = dict(config)
        while path := text_config_path(left, rules):
            found.append(path[0])
            del left[path[0]]
    assert found[:4] == ["text_config", "llm_config", "language_config", "thinker_config"]
    assert found[4:] == ["thinker_config", "llm_config", "language_config", "text_config"]


def test_text_config_inside_thinker_config_and_llava() -> None:
    config = {"thinker_config": {"text_config": {"seq_length": 5}}}
    assert derive_context_length(config, NEW).path == ("thinker_config", "text_config", "seq_length")
    llava = {"architectures": ["LlavaLlamaForCausalLM"], "text_config": {"seq_length": 5}, "seq_length": 6}
    assert derive_context_length(llava, NEW).length == 6


@pytest.mark.parametrize("value", ["many", True, [1], float("inf"), float("nan")])
def test_a_length_must_be_a_number(value: object) -> None:
    with pytest.raises(ContextLengthError, match="a number is needed"):
        derive_context_length({"seq_length": value}, NEW)


@pytest.mark.parametrize(
    ("text", "rules"),
    [("0.5.9", (OLD,)), ("0.5.8.post1", (OLD,)), ("0.5.10", (NEW,)), ("v0.5.23+cu130", (NEW,)), ("main", (OLD, NEW))],
)
def test_rules_of_a_version(text: str, rules: tuple[Rules, ...]) -> None:
    assert rules_for(parse_version(text)) == rules
