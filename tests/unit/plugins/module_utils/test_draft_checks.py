from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.draft_checks import DraftFacts, as_dicts, check_draft
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.safetensors_header import Checkpoint
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plugins.draft_models import draft_config, draft_shapes, mla_draft_config, target_config


def found(
    draft: dict[str, Any],
    shapes: dict[str, Any] | None = None,
    *,
    version: tuple[int, ...] | None = (0, 5, 15),
    tensor_parallel_size: int = 8,
    checkpoint: Checkpoint | None = None,
) -> dict[str, str]:
    facts = DraftFacts(draft, target_config()["text_config"], version, tensor_parallel_size)
    checkpoint = checkpoint or Checkpoint(draft_shapes() if shapes is None else shapes, [], False)
    return {finding.id: finding.severity for finding in check_draft(facts, checkpoint)}


def test_good_drafts_have_no_finding() -> None:
    assert found(draft_config()) == {}
    assert found(draft_config(), version=(0, 5, 9)) == {}
    assert found(mla_draft_config()) == {}
    assert found(draft_config(draft_vocab_size=None)) == {}
    assert found(mla_draft_config(draft_vocab_size="absent")) == {}
    assert found(draft_config(num_hidden_layers=2)) == {}
    assert found(draft_config(num_key_value_heads=2)) == {}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 200) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
AUX_LAYERS = st.fixed_dictionaries({"eagle_aux_hidden_state_layer_ids": JSON_VALUES})


@given(st.data())
def test_no_configuration_breaks_the_checks(data: st.DataObject) -> None:
    keys = [*mla_draft_config(), "target_hidden_size", "num_aux_hidden_states", "norm_output"]
    changes = data.draw(st.dictionaries(st.sampled_from(keys), JSON_VALUES | AUX_LAYERS))
    target = data.draw(
        st.dictionaries(st.sampled_from(["hidden_size", "vocab_size", "num_hidden_layers"]), JSON_VALUES)
    )
    shapes = data.draw(
        st.dictionaries(st.sampled_from(list(draft_shapes())), st.lists(st.integers(0, 99), max_size=3).map(tuple))
    )
    version = data.draw(st.sampled_from([None, (0, 5, 9), (0, 5, 23)]))
    check_draft(DraftFacts({**mla_draft_config(), **changes}, target, version, 8), Checkpoint(shapes, [], False))
    check_draft(DraftFacts({**draft_config(), **changes}, target, version, 8), Checkpoint(shapes, [], False))


ERROR, WARNING = "error", "warning"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"architectures": ["Qwen3ForCausalLM"]}, {"architecture-not-eagle3": ERROR}),
        ({"architectures": "absent"}, {"architecture-not-eagle3": ERROR}),
        ({"architectures": ["NewForCausalLMEagle3"]}, {"architecture-unknown": WARNING}),
        ({"target_hidden_size": 32}, {"hidden-size": ERROR, "fc-shape": ERROR}),
        ({"vocab_size": 128}, {"vocab-size": WARNING}),
        ({"draft_vocab_size": "absent"}, {"draft-vocab-size-missing": ERROR}),
        ({"draft_vocab_size": 200}, {"draft-vocab-size": ERROR, "d2t-shape": ERROR, "lm-head-shape": ERROR}),
        ({"num_hidden_layers": 0}, {"layer-count": ERROR}),
        ({"num_attention_heads": "absent"}, {"heads-missing": ERROR}),
        ({"num_attention_heads": 12, "num_key_value_heads": 8}, {"heads": ERROR}),
        ({"num_key_value_heads": 12}, {"kv-heads": ERROR}),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 61]}}, {"aux-layers": ERROR}),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 30, 60]}}, {"aux-layers": ERROR}),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": "all"}}, {"aux-layers": ERROR}),
        ({"eagle_config": "absent"}, {"aux-layers-default": WARNING}),
        ({"num_aux_hidden_states": 4}, {"aux-layer-count": ERROR, "fc-shape": ERROR}),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30]}}, {"fc-shape": ERROR}),
    ],
)
def test_findings_from_the_configuration(changes: dict[str, Any], expected: dict[str, str]) -> None:
    assert found(draft_config(**changes)) == expected


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"d2t": None}, {"d2t-missing": ERROR}),
        ({"d2t": (39,)}, {"d2t-shape": ERROR}),
        ({"lm_head.weight": None}, {"lm-head-missing": ERROR}),
        ({"lm_head.weight": (100, 16)}, {"lm-head-shape": ERROR}),
        ({"fc.weight": None}, {"fc-missing": ERROR}),
        ({"fc.weight": None, "model.fc.weight": (16, 48)}, {}),
        ({"fc.weight": (16, 32)}, {"fc-shape": ERROR}),
        ({"midlayer.self_attn.q_proj.weight": None}, {"layer-missing": ERROR}),
    ],
)
def test_findings_from_the_tensors(shapes: dict[str, Any], expected: dict[str, str]) -> None:
    assert found(draft_config(), draft_shapes(**shapes)) == expected


def test_tied_embeddings_need_no_head() -> None:
    assert found(draft_config(tie_word_embeddings=True), draft_shapes(**{"lm_head.weight": None})) == {}


def test_rules_that_depend_on_the_version() -> None:
    old = (0, 5, 11)
    assert found(mla_draft_config(), version=old) == {"architecture-version": ERROR}
    assert found(mla_draft_config(), version=None) == {"architecture-version": WARNING}
    assert found(draft_config(num_hidden_layers=2), version=old) == {"layer-count": ERROR}
    assert found(draft_config(norm_output=True), version=old) == {"newer-layout": WARNING}
    assert found(draft_config(norm_output=True)) == {}
    renamed = draft_shapes(**{"midlayer.self_attn.q_proj.weight": None, "layers.0.self_attn.q_proj.weight": (1, 1)})
    assert found(draft_config(), renamed, version=old) == {"layer-name": ERROR}
    assert found(draft_config(), renamed) == {}


def test_multi_latent_drafts() -> None:
    assert found(mla_draft_config(q_lora_rank="absent")) == {"mla-keys": ERROR}
    assert found(mla_draft_config(num_hidden_layers=2)) == {"layer-count": ERROR}
    top_level = mla_draft_config(eagle_config="absent", eagle_aux_hidden_state_layer_ids=[1, 2])
    assert set(found(top_level)) == {"aux-layers-default", "aux-layer-count", "fc-shape"}


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        (Checkpoint({}, [], False), {"weights-missing": ERROR}),
        (Checkpoint({}, ["b.safetensors"], False), {"weights-missing": ERROR}),
        (Checkpoint({}, [], True), {"weights-unchecked": WARNING}),
    ],
)
def test_weight_files(checkpoint: Checkpoint, expected: dict[str, str]) -> None:
    assert found(draft_config(), checkpoint=checkpoint) == expected


def test_unknown_target_sizes_and_errors_first() -> None:
    facts = DraftFacts(draft_config(hidden_size=None, eagle_config="absent", num_hidden_layers=0), {}, (0, 5, 15), 1)
    findings = check_draft(facts, Checkpoint(draft_shapes(**{"lm_head.weight": (40, 1)}), [], False))
    severities = [finding["severity"] for finding in as_dicts(findings)]
    assert severities == sorted(severities)
    assert str(findings[0]).endswith(".")
