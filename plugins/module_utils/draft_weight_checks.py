"""Do a draft's tensors agree with its config.json?

SGLang's draft loader drops what it does not know and does not miss what is absent: 0.5.9 and 0.5.15
`srt/models/llama_eagle3.py` and `kimi_k25_eagle3.py` (`load_weights`). Pure: no input or output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.finding import Finding, error, warning

if TYPE_CHECKING:
    from ansible_collections.sglang_ops.eagle3.plugins.module_utils.safetensors_header import Checkpoint, Shape

_FETCH_AGAIN = "fetch the draft again, or use another one"


def check_tensors(
    checkpoint: Checkpoint,
    *,
    draft: Mapping[str, Any],
    target_vocab_size: object,
    fc_inputs: Optional[int],
    is_llama: bool,
    needs_midlayer: bool,
) -> Iterator[Finding]:
    """Findings about the tensors; `fc_inputs` is the width that the draft's fc layer must take, None when unknown."""
    if not checkpoint.has_weights:
        yield error("weights-missing", "the draft's folder holds no weight file", _FETCH_AGAIN)
    elif checkpoint.missing_files:
        names = ", ".join(checkpoint.missing_files)
        yield error("weights-missing", f"the draft's index names {names}, which are not there", _FETCH_AGAIN)
    elif checkpoint.has_pickle_only:
        message = "the draft has pickled weights (.bin, .pt) only, whose tensors are not checked here"
        yield warning("weights-unchecked", message, "convert them to safetensors to have them checked")
    else:
        yield from _vocabulary(checkpoint, draft, target_vocab_size)
        yield from _fc(checkpoint, draft, fc_inputs)
        yield from _layer(checkpoint, is_llama=is_llama, needs_midlayer=needs_midlayer)


def _vocabulary(checkpoint: Checkpoint, draft: Mapping[str, Any], target_vocab_size: object) -> Iterator[Finding]:
    size = draft.get("draft_vocab_size")
    if not isinstance(size, int):
        return
    map_name = next((name for name in checkpoint.shapes if "d2t" in name), None)
    if isinstance(target_vocab_size, int) and size < target_vocab_size and map_name is None:
        message = (
            f"the draft has {size} of the target's {target_vocab_size} tokens but no d2t tensor to map them: "
            "nothing would be accepted"
        )
        yield error("d2t-missing", message, _FETCH_AGAIN)
    if map_name is not None and checkpoint.shapes[map_name] != (size,):
        message = f"{map_name} has shape {_shown(checkpoint.shapes[map_name])}, draft_vocab_size is {size}"
        yield error("d2t-shape", message, _FETCH_AGAIN)
    if draft.get("tie_word_embeddings"):
        return
    head = _find(checkpoint, "lm_head.weight")
    if head is None:
        message = "the draft declares draft_vocab_size but ships no lm_head.weight: it would draft with random numbers"
        yield error("lm-head-missing", message, _FETCH_AGAIN)
    elif head != (size, draft.get("hidden_size")):
        wanted = _shown((size, draft.get("hidden_size")))
        yield error(
            "lm-head-shape", f"lm_head.weight has shape {_shown(head)}, config.json asks for {wanted}", _FETCH_AGAIN
        )


def _fc(checkpoint: Checkpoint, draft: Mapping[str, Any], fc_inputs: Optional[int]) -> Iterator[Finding]:
    shape = _find(checkpoint, "fc.weight")
    if shape is None:
        message = "the draft ships no fc.weight, which joins the target's hidden states"
        yield error("fc-missing", message, _FETCH_AGAIN)
    elif fc_inputs is not None and shape != (draft.get("hidden_size"), fc_inputs):
        message = (
            f"fc.weight has shape {_shown(shape)}, config.json asks for {_shown((draft.get('hidden_size'), fc_inputs))}"
        )
        yield error("fc-shape", message, "use the draft that was trained for this target, with its own config.json")


def _layer(checkpoint: Checkpoint, *, is_llama: bool, needs_midlayer: bool) -> Iterator[Finding]:
    names = list(checkpoint.shapes)
    if not any("midlayer." in name or "layers.0." in name for name in names):
        yield error("layer-missing", "the draft ships no tensor of its decoder layer", _FETCH_AGAIN)
    elif is_llama and needs_midlayer and not any("midlayer." in name for name in names):
        message = (
            "the draft names its layer layers.0, which SGLang before 0.5.12 drops silently: nothing would be accepted"
        )
        yield error("layer-name", message, "use SGLang 0.5.12 or later")


def _find(checkpoint: Checkpoint, name: str) -> Optional[Shape]:
    """Shape of a tensor under its name with or without the prefix that SGLang's loader adds."""
    return checkpoint.shapes.get(name, checkpoint.shapes.get(f"model.{name}"))


def _shown(shape: Iterable[object]) -> str:
    return " x ".join(str(extent) for extent in shape)
