"""The context length that SGLang derives from a model's config.json, without importing SGLang or transformers.

Sources: SGLang 0.5.9 and 0.5.10 `srt/utils/hf_transformers_utils.py` (`get_hf_text_config`, `get_context_length`),
0.5.11 to 0.5.23 `srt/utils/hf_transformers/common.py`; transformers 5
`modeling_rope_utils.py` (`standardize_rope_params`).

Pure: no input or output. All lengths are in tokens.
"""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.json_edit import KeyPath, lookup

# SGLang's CONTEXT_LENGTH_KEYS, in its order.
CONTEXT_LENGTH_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)
FALLBACK_CONTEXT_LENGTH = 2048

Version = Tuple[int, ...]


class ContextLengthError(ValueError):
    """A value in the configuration has no length; the message is one sentence."""


class Rules(enum.Enum):
    """Which SGLang (and with it which transformers) reads the configuration."""

    TRANSFORMERS_4 = "SGLang up to 0.5.9"
    TRANSFORMERS_5 = "SGLang from 0.5.10"


_FIRST_TRANSFORMERS_5: Version = (0, 5, 10)
_TEXT_CONFIG_ORDER = {
    Rules.TRANSFORMERS_4: ("text_config", "llm_config", "language_config", "thinker_config"),
    Rules.TRANSFORMERS_5: ("thinker_config", "llm_config", "language_config", "text_config"),
}
# transformers 5 adds original_max_position_embeddings to these, and SGLang then ignores the factor.
_SCALED_WITH_ORIGINAL_LENGTH = ("llama3", "yarn", "longrope")


@dataclass(frozen=True)
class DerivedContext:
    """A context length and where it came from; `path` is None when no key says it and the fallback holds."""

    length: int
    path: Optional[KeyPath]
    factor: float
    rules: Rules


def parse_version(text: str) -> Optional[Version]:
    """The first three numbers of a version such as 0.5.10.post1; None where it has no three numbers."""
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in match.groups()) if match else None


def rules_for(version: Optional[Version]) -> Tuple[Rules, ...]:
    """The rules of an SGLang version; both when it is not known."""
    if version is None:
        return (Rules.TRANSFORMERS_4, Rules.TRANSFORMERS_5)
    return (Rules.TRANSFORMERS_5,) if version >= _FIRST_TRANSFORMERS_5 else (Rules.TRANSFORMERS_4,)


def text_config_path(config: Mapping[str, Any], rules: Rules) -> KeyPath:
    """Where the language model's part of a configuration is; the empty path is the whole of it."""
    architectures = config.get("architectures")
    name = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    if name.startswith("Llava") and name.endswith("ForCausalLM"):
        return ()
    for key in _TEXT_CONFIG_ORDER[rules]:
        part = config.get(key)
        if isinstance(part, Mapping):
            if key == "thinker_config" and isinstance(part.get("text_config"), Mapping):
                return (key, "text_config")
            return (key,)
    return ()


def text_config(config: Mapping[str, Any], rules: Rules) -> Mapping[str, Any]:
    """The language model's part of a configuration."""
    part = lookup(config, text_config_path(config, rules))
    return part if isinstance(part, Mapping) else config


def derive_context_length(config: Mapping[str, Any], rules: Rules) -> DerivedContext:
    """The length that SGLang derives when no --context-length is given.

    Raises:
        ContextLengthError: a length or a factor in the configuration is not a number.
    """
    path = text_config_path(config, rules)
    part = text_config(config, rules)
    factor = _rope_factor(part, rules)
    for key in CONTEXT_LENGTH_KEYS:
        value = part.get(key)
        if value is not None:
            return DerivedContext(int(factor * _number(key, value)), (*path, key), factor, rules)
    return DerivedContext(FALLBACK_CONTEXT_LENGTH, None, factor, rules)


def _rope_factor(part: Mapping[str, Any], rules: Rules) -> float:
    scaling = part.get("rope_scaling")
    if rules is Rules.TRANSFORMERS_5:
        scaling = scaling or part.get("rope_parameters")
    if not isinstance(scaling, Mapping) or "original_max_position_embeddings" in scaling:
        return 1
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "llama3" or (rules is Rules.TRANSFORMERS_5 and kind in _SCALED_WITH_ORIGINAL_LENGTH):
        return 1
    return _number("the rope factor", scaling.get("factor", 1))


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ContextLengthError(f"{name} is {value!r}: a number is needed")
    return value
