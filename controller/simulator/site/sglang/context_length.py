"""SGLang's rule for the context length of a model, read from its real config.json.

Source: ``ModelConfig._derive_context_length`` (srt/configs/model_config.py) and ``get_context_length``
(srt/utils/hf_transformers_utils.py) of 0.5.15; the rule is the same in 0.5.6 to 0.5.23.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CONTEXT_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)
_TEXT_CONFIGS = ("thinker_config", "llm_config", "language_config", "text_config")
OVERRIDE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def read_config(model_path: str) -> dict[str, Any]:
    """Read a model's config.json.

    Raises:
        OSError: no such folder or file, in the words of transformers.
    """
    folder = Path(model_path)
    if not folder.is_dir():
        raise OSError(
            f"Incorrect path_or_model_id: '{model_path}'. Please provide either the path to a local folder or the "
            "repo_id of a model on the Hub."
        )
    path = folder / "config.json"
    if not path.is_file():
        raise OSError(
            f"{model_path} does not appear to have a file named config.json. Checkout "
            f"'https://huggingface.co/{model_path}/tree/main' for available files."
        )
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a config that describes the language model."""
    for key in _TEXT_CONFIGS:
        part = config.get(key)
        if isinstance(part, dict):
            return part
    return config


def derived_context_length(config: dict[str, Any]) -> int:
    """Return the context length that SGLang derives from a config (rope factor included)."""
    text = text_config(config)
    factor = 1.0
    scaling = text.get("rope_scaling") or text.get("rope_parameters")
    if scaling:
        rope_type = scaling.get("rope_type", scaling.get("type"))
        # transformers 5 adds the original length to every yarn config, which switches the factor off.
        switched_off = "original_max_position_embeddings" in scaling or rope_type in ("llama3", "yarn")
        factor = 1.0 if switched_off else float(scaling.get("factor", 1.0))
    for key in _CONTEXT_KEYS:
        value = text.get(key)
        if value is not None:
            return int(factor * value)
    return 2048


def override_allowed(environment: Mapping[str, str]) -> bool:
    """Say whether the environment lets a context length exceed the derived one."""
    return any(environment.get(name, "").lower() in ("1", "true", "yes", "y") for name in (OVERRIDE, "SGLANG_IS_IN_CI"))


def effective_context_length(
    config: dict[str, Any],
    requested: int | None,
    environment: Mapping[str, str],
    is_draft_model: bool = False,
    warn: Callable[[str], None] = lambda _: None,
) -> int:
    """Return the context length a model is run with.

    Args:
        config: the model's config.json.
        requested: ``--context-length``; for a draft model the target's effective length.
        environment: the process environment.
        is_draft_model: changes the wording only.
        warn: called with each warning the real server would log.

    Raises:
        ValueError: the request exceeds the derived length and no override is set; SGLang's own text.
    """
    derived = derived_context_length(config)
    if requested is None:
        return derived
    if requested <= derived:
        return requested
    reason = "Target model's" if is_draft_model else "User-specified"
    message = (
        f"Warning: {reason} context_length ({requested}) is greater than the derived context_length ({derived}). "
        "This may lead to incorrect model outputs or CUDA errors. Note that the derived context_length may differ from "
        "max_position_embeddings in the model's config."
    )
    if not override_allowed(environment):
        raise ValueError(f"{message} To allow overriding this maximum, set the env var {OVERRIDE}=1")
    warn(message)
    if is_draft_model:
        warn(f"Overriding the draft model's max_position_embeddings to {requested}.")
    return requested
