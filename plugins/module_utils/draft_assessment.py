"""Do the draft's and the target's context lengths clash in SGLang, and what has to be said or set when they do.

Source: SGLang 0.5.6 to 0.5.23 `srt/configs/model_config.py` (`_derive_context_length`): the draft is built with the
target's final context length, and SGLang stops when that is greater than what the draft's config.json gives.
Pure: no input or output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import (
    Rules,
    derive_context_length,
    text_config,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.finding import Finding, error

OVERRIDE_VARIABLE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
# How SGLang reads a boolean environment variable (srt/environ.py).
_TRUE = ("1", "true", "yes", "y")


@dataclass(frozen=True)
class Contexts:
    """Context lengths in tokens: what the target alone gives, what it is served with, and what the draft gives."""

    target_derived: int
    target: int
    draft: int

    @property
    def clash(self) -> bool:
        """Whether SGLang refuses this pair."""
        return self.target > self.draft


def compare_contexts(
    draft: Mapping[str, Any], target: Mapping[str, Any], rules: Tuple[Rules, ...], context_length: Optional[int]
) -> Contexts:
    """The lengths of both models; with several rules (SGLang's version unknown) those of the worst one.

    Raises:
        ContextLengthError: a length in one of the configurations is not a number.
    """
    pairs = []
    for rule in rules:
        derived = derive_context_length(target, rule).length
        wanted = derived if context_length is None else context_length
        pairs.append(Contexts(derived, wanted, derive_context_length(draft, rule).length))
    return max(pairs, key=lambda contexts: contexts.target - contexts.draft)


def explicit_length_findings(contexts: Contexts, environment: Mapping[str, Any]) -> List[Finding]:
    """SGLang refuses a --context-length beyond what the target's own config.json gives."""
    if contexts.target <= contexts.target_derived or is_override_set(environment):
        return []
    message = f"context_length {contexts.target} is more than the target's own length of {contexts.target_derived}"
    return [error("context-length", message, "lower sglang_server_context_length")]


def is_override_set(environment: Mapping[str, Any]) -> bool:
    """Whether the server's environment makes SGLang warn where it would refuse."""
    return str(environment.get(OVERRIDE_VARIABLE, "")).lower() in _TRUE


def override_environment() -> Dict[str, str]:
    """What the strategy allow_override needs in the server's environment."""
    return {OVERRIDE_VARIABLE: "1"}


def inventory_lines(strategy: str, contexts: Contexts) -> str:
    """The two inventory lines that a strategy which writes nothing needs."""
    if strategy == "limit_context":
        setting = f"sglang_server_context_length: {contexts.draft}"
    else:
        setting = f'sglang_server_environment: {{{OVERRIDE_VARIABLE}: "1"}}'
    return f"draft_config_strategy: {strategy}\n{setting}"


def clash_notes(
    contexts: Contexts, *, trained: int, strategy: str, draft: Mapping[str, Any], rules: Tuple[Rules, ...]
) -> List[str]:
    """What an operator must know when the draft was made for `trained` tokens and is served with more."""
    wrong_draft = (
        f"The draft says {trained} tokens, the target is served with {contexts.target}: this can mean the wrong draft "
        "(a Kimi-K2 draft says 131072, a Kimi-K2.5 one 262144). If there is a draft made for this target, use that one."
    )
    notes = [wrong_draft]
    if strategy == "limit_context":
        return notes
    if strategy == "allow_override":
        notes.append(
            f"{OVERRIDE_VARIABLE}=1: SGLang warns that positions past the draft's {trained} tokens can end in "
            "illegal memory accesses, and acceptance collapses there."
        )
    else:
        notes.append(
            f"The patched draft has not been trained past {trained} tokens: beyond that expect few accepted tokens, "
            "and check its output. The strategy limit_context is the safe way."
        )
        notes += _rope_notes(draft, rules)
    return notes


def _rope_notes(draft: Mapping[str, Any], rules: Tuple[Rules, ...]) -> List[str]:
    part = text_config(draft, rules[-1])
    scaling = part.get("rope_scaling") or part.get("rope_parameters")
    if not isinstance(scaling, Mapping) or "original_max_position_embeddings" in scaling:
        return []
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind not in ("yarn", "longrope", "dynamic"):
        return []
    note = (
        f"The draft scales its rotary embedding ({kind}) from max_position_embeddings because "
        "original_max_position_embeddings is missing: the patch changes that scaling too. "
        "Add the original length to its rope_scaling."
    )
    return [note]
