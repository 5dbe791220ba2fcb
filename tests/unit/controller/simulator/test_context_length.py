from typing import Any

import pytest

from controller.simulator.models import DRAFT_CONFIG, TARGET_CONFIG
from controller.simulator.site.sglang.context_length import derived_context_length, effective_context_length

CLASH = (
    "Warning: Target model's context_length (262144) is greater than the derived context_length (131072). "
    "This may lead to incorrect model outputs or CUDA errors. "
    "Note that the derived context_length may differ from max_position_embeddings in the model's config. "
    "To allow overriding this maximum, set the env var SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
)


def test_the_pair_of_the_story_clashes_with_the_real_text() -> None:
    target = effective_context_length(TARGET_CONFIG, None, {})
    assert target == 262144
    with pytest.raises(ValueError, match="greater than the derived") as refused:
        effective_context_length(DRAFT_CONFIG, target, {}, is_draft_model=True)
    assert str(refused.value) == CLASH


@pytest.mark.parametrize("value", ["1", "true", "YES", "y"])
def test_the_override_warns_instead(value: str) -> None:
    warnings: list[str] = []
    environment = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": value}
    length = effective_context_length(DRAFT_CONFIG, 262144, environment, is_draft_model=True, warn=warnings.append)
    assert length == 262144
    assert warnings[1] == "Overriding the draft model's max_position_embeddings to 262144."


def test_a_shorter_request_is_taken_as_it_is() -> None:
    assert effective_context_length(DRAFT_CONFIG, 4096, {}, is_draft_model=True) == 4096


def test_a_request_beyond_the_target_names_the_user() -> None:
    with pytest.raises(ValueError, match="User-specified context_length"):
        effective_context_length(TARGET_CONFIG, 300_000, {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "0"})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, 2048),
        ({"max_position_embeddings": 1000}, 1000),
        ({"max_sequence_length": 10, "max_position_embeddings": 1000}, 10),
        ({"max_position_embeddings": 1000, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}, 2000),
        ({"max_position_embeddings": 1000, "rope_scaling": {"type": "yarn", "factor": 64.0}}, 1000),
        ({"max_position_embeddings": 1000, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 1000),
        ({"max_position_embeddings": 5, "text_config": {"max_position_embeddings": 7}}, 7),
    ],
)
def test_derivation(config: dict[str, Any], expected: int) -> None:
    assert derived_context_length(config) == expected
