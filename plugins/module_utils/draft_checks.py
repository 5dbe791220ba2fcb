"""Is this folder an EAGLE-3 draft, and does it fit the target? Answered from config.json and tensor shapes.

Some of these mistakes stop SGLang after the target's weights are loaded; the worse ones do not stop it at all, and the
draft's tokens are simply never accepted. Sources: SGLang 0.5.9, 0.5.15 and 0.5.23 `srt/models/llama_eagle3.py`,
`kimi_k25_eagle3.py`, `llama.py` (heads), `deepseek_v2.py` (`set_eagle3_layers_to_capture`), and
`srt/model_executor/model_runner_components/spec_aux_hidden_state.py`.

Pure: no input or output.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.draft_weight_checks import check_tensors
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.finding import Finding, error, warning

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import Version
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.safetensors_header import Checkpoint

LLAMA_DRAFT = "LlamaForCausalLMEagle3"
MLA_DRAFT = "Eagle3DeepseekV2ForCausalLM"
_ARCHITECTURES_SINCE: Mapping[str, Version] = {LLAMA_DRAFT: (0, 5, 6), MLA_DRAFT: (0, 5, 12)}
# From this version the Llama draft has as many layers as it says, and counts aux layers from its config.
_FLEXIBLE_LLAMA_DRAFT: Version = (0, 5, 12)
_EAGLE_3_1_KEYS_SINCE: Mapping[str, Version] = {
    "fc_norm": (0, 5, 12),
    "use_aux_norm": (0, 5, 12),
    "norm_output": (0, 5, 12),
    "norm_before_fc": (0, 5, 18),
}
_MLA_KEYS = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_DEFAULT_AUX_LAYERS = 3


@dataclass(frozen=True)
class DraftFacts:
    """What the rules below need to know.

    Attributes:
        draft: the draft's config.json.
        target: the text part of the target's config.json.
        version: SGLang's version, None when unknown: then only rules that hold in all versions are errors.
        tensor_parallel_size: number of GPUs that share a layer.
    """

    draft: Mapping[str, Any]
    target: Mapping[str, Any]
    version: Optional[Version]
    tensor_parallel_size: int

    @property
    def architecture(self) -> str:
        """The draft's model class, empty when it names none."""
        names = self.draft.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""

    @property
    def is_mla(self) -> bool:
        """Whether the draft uses multi-latent attention."""
        return self.architecture == MLA_DRAFT

    @property
    def is_flexible_llama(self) -> bool:
        """Whether SGLang lets this Llama draft choose its layer and aux counts; an unknown version counts as recent."""
        return not self.is_mla and (self.version is None or self.version >= _FLEXIBLE_LLAMA_DRAFT)

    @property
    def target_hidden_size(self) -> object:
        """Width of the target's hidden states that the draft was built for."""
        return self.draft.get("target_hidden_size") or self.draft.get("hidden_size")

    @property
    def aux_layer_ids(self) -> object:
        """Target layers whose hidden states are captured, None when the default is to be used."""
        eagle_config = self.draft.get("eagle_config")
        return eagle_config.get("eagle_aux_hidden_state_layer_ids") if isinstance(eagle_config, Mapping) else None

    @property
    def aux_layer_count(self) -> int:
        """How many hidden states the draft's fc layer takes side by side."""
        if self.is_flexible_llama and isinstance(self.draft.get("num_aux_hidden_states"), int):
            return int(self.draft["num_aux_hidden_states"])
        ids = self.aux_layer_ids
        if self.is_mla and ids is None:
            ids = self.draft.get("eagle_aux_hidden_state_layer_ids")
        if isinstance(ids, list) and ids and (self.is_mla or self.is_flexible_llama):
            return len(ids)
        return _DEFAULT_AUX_LAYERS


def check_draft(facts: DraftFacts, checkpoint: Checkpoint) -> List[Finding]:
    """All findings about a draft, errors first."""
    findings = [
        *_architecture(facts),
        *_sizes(facts),
        *_draft_vocabulary(facts),
        *_layers(facts),
        *_heads(facts),
        *_aux_layers(facts),
        *_newer_layout(facts),
        *check_tensors(
            checkpoint,
            draft=facts.draft,
            target_vocab_size=facts.target.get("vocab_size"),
            fc_inputs=_product(facts.target_hidden_size, facts.aux_layer_count),
            is_llama=not facts.is_mla,
            needs_midlayer=not facts.is_mla and not facts.is_flexible_llama,
        ),
    ]
    return sorted(findings, key=lambda finding: finding.severity != "error")


def as_dicts(findings: List[Finding]) -> List[Dict[str, str]]:
    """Findings as a module returns them."""
    return [asdict(finding) for finding in findings]


def _architecture(facts: DraftFacts) -> Iterator[Finding]:
    name = facts.architecture
    since = _ARCHITECTURES_SINCE.get(name)
    if since is None:
        known = ", ".join(_ARCHITECTURES_SINCE)
        message = f"architectures is {name or 'missing'}: the EAGLE-3 draft classes known here are {known}"
        if "eagle3" in name.lower():
            yield warning("architecture-unknown", message, "check that your SGLang has this class")
        else:
            yield error(
                "architecture-not-eagle3", message, "give an EAGLE-3 draft, or correct architectures if it is one"
            )
    elif facts.version is None and since > _ARCHITECTURES_SINCE[LLAMA_DRAFT]:
        yield warning(
            "architecture-version", f"{name} needs SGLang {_dotted(since)}", "check the version on the machine"
        )
    elif facts.version is not None and facts.version < since:
        message = f"{name} needs SGLang {_dotted(since)}, this is {_dotted(facts.version)}"
        yield error("architecture-version", message, "upgrade SGLang or use a Llama-type draft")


def _sizes(facts: DraftFacts) -> Iterator[Finding]:
    wanted, got = facts.target.get("hidden_size"), facts.target_hidden_size
    if wanted is not None and got != wanted:
        message = f"the draft takes hidden states of width {got}, the target's are {wanted} wide"
        yield error("hidden-size", message, "use the draft that was trained for this target")
    wanted, got = facts.target.get("vocab_size"), facts.draft.get("vocab_size")
    if wanted is not None and got != wanted:
        message = f"the draft's vocab_size is {got}, the target's is {wanted}"
        yield warning("vocab-size", message, "make sure that both use the same tokenizer")


def _draft_vocabulary(facts: DraftFacts) -> Iterator[Finding]:
    if "draft_vocab_size" not in facts.draft:
        if not facts.is_mla:
            message = "draft_vocab_size is missing: SGLang's Llama draft stops with an AttributeError"
            yield error(
                "draft-vocab-size-missing", message, "add it (null means the target's whole vocabulary and its lm_head)"
            )
        return
    size, whole = facts.draft["draft_vocab_size"], facts.target.get("vocab_size")
    if isinstance(size, int) and isinstance(whole, int) and size > whole:
        message = f"draft_vocab_size {size} is larger than the target's vocabulary of {whole}"
        yield error("draft-vocab-size", message, "use the draft that was trained for this target")


def _layers(facts: DraftFacts) -> Iterator[Finding]:
    count = facts.draft.get("num_hidden_layers")
    if count != 1 and not (facts.is_flexible_llama and isinstance(count, int) and count > 1):
        message = f"num_hidden_layers is {count}: SGLang's EAGLE-3 draft of this kind and version has exactly 1 layer"
        yield error("layer-count", message, "use a one-layer draft, or SGLang 0.5.12 or later for a Llama-type one")
    if facts.is_mla:
        missing = [key for key in _MLA_KEYS if facts.draft.get(key) is None]
        if missing:
            yield error(
                "mla-keys", f"the multi-latent draft lacks {', '.join(missing)}", "fetch its whole config.json again"
            )


def _heads(facts: DraftFacts) -> Iterator[Finding]:
    size = facts.tensor_parallel_size
    heads = facts.draft.get("num_attention_heads")
    if not isinstance(heads, int) or heads < 1:
        yield error("heads-missing", f"num_attention_heads is {heads}", "fetch the draft's whole config.json again")
        return
    remedy = "choose a tensor parallel size that divides them"
    if heads % size:
        yield error("heads", f"{heads} attention heads cannot be split over {size} GPUs", remedy)
    shared = facts.draft.get("num_key_value_heads") or heads
    # Fewer key-value heads than GPUs are copied, which needs the opposite division (llama.py).
    if not facts.is_mla and isinstance(shared, int) and max(shared, size) % min(shared, size):
        yield error("kv-heads", f"{shared} key-value heads cannot be spread over {size} GPUs", remedy)


def _aux_layers(facts: DraftFacts) -> Iterator[Finding]:
    ids = facts.aux_layer_ids
    if ids is None:
        message = "eagle_config.eagle_aux_hidden_state_layer_ids is missing: SGLang captures layers 2, n/2 and n-3"
        yield warning(
            "aux-layers-default",
            message,
            "compare with the draft's training; other layers give low acceptance silently",
        )
        captured = _DEFAULT_AUX_LAYERS
    elif not isinstance(ids, list) or not ids or not all(type(layer) is int for layer in ids):
        yield error("aux-layers", f"eagle_aux_hidden_state_layer_ids is {ids!r}", "give a list of layer numbers")
        return
    else:
        captured = len(ids)
        layers = facts.target.get("num_hidden_layers")
        shift = 1 if ids[0] == 1 else 0  # a first id of 1 marks the other numbering: SGLang adds one to each
        outside = [layer for layer in ids if isinstance(layers, int) and not 0 <= layer + shift < layers]
        if outside:
            message = f"aux layers {outside} are not among the target's {layers} layers (numbered from {-shift})"
            yield error("aux-layers", message, "use the draft that was trained for this target")
    if captured != facts.aux_layer_count:
        message = f"{captured} target layers are captured, the draft's fc layer takes {facts.aux_layer_count}"
        yield error(
            "aux-layer-count",
            message,
            "make eagle_config.eagle_aux_hidden_state_layer_ids as long as the draft expects",
        )


def _newer_layout(facts: DraftFacts) -> Iterator[Finding]:
    eagle_config = facts.draft.get("eagle_config")
    settings = {**facts.draft, **(eagle_config if isinstance(eagle_config, Mapping) else {})}
    for key, since in _EAGLE_3_1_KEYS_SINCE.items():
        if settings.get(key) and facts.version is not None and facts.version < since:
            message = f"{key} is set, which SGLang {_dotted(facts.version)} ignores silently: acceptance will be low"
            yield warning("newer-layout", message, f"use SGLang {_dotted(since)} or later")


def _product(width: object, count: int) -> Optional[int]:
    return width * count if isinstance(width, int) else None


def _dotted(version: Version) -> str:
    return ".".join(str(part) for part in version)
