"""Guess a class from where an exception was raised, when its own words are not known (pure).

The place is weaker evidence than the words: what comes from here is never sure.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import LOW, MEDIUM

_FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line [\d<][^,\s]*(?:, in (?P<function>\S+))?')


@dataclasses.dataclass(frozen=True)
class Place:
    """Where an exception was raised, and what that means.

    Attributes:
        identifier: unique name, "<class>/<what>".
        frame: searched in "<path> <function>" of a traceback's frames.
        exception: what the exception's line must look like, None for any.
        innermost: whether only the frame right above the exception counts.
        confidence: how sure the class is.
    """

    identifier: str
    frame: re.Pattern[str]
    exception: Optional[re.Pattern[str]] = None
    innermost: bool = False
    confidence: str = LOW


# From the more to the less telling. Paths of SGLang 0.4.9 to 0.5.23, torch, Triton, FlashInfer and transformers.
PLACES: Tuple[Place, ...] = (
    Place(
        "custom-ar/place",
        re.compile(r"custom_all_reduce(?:_v2|_utils)?\.py "),
        re.compile(r"CUDA error|CUDART error|Runtime ?(?:Error|check)|Assertion"),
        confidence=MEDIUM,
    ),
    Place(
        "jit-build/place",
        re.compile(r"torch/utils/cpp_extension\.py |flashinfer/jit/|tvm_ffi/cpp/|triton/runtime/build\.py "),
        confidence=MEDIUM,
    ),
    Place(
        "cache-perm/place",
        re.compile(r"triton/runtime/cache\.py "),
        re.compile(r"(?:OSError|PermissionError|FileNotFound)"),
    ),
    Place(
        "shm-small/place",
        re.compile(r"multiprocessing/(?:heap|shared_memory|resource_tracker|synchronize)\.py |shm_broadcast\.py "),
        re.compile(r"No space left on device|Bus error"),
        confidence=MEDIUM,
    ),
    Place(
        "spec-args/place",
        re.compile(r"sglang/(?:srt/)?(?:server_args|arg_groups/\w+|speculative/spec_(?:info|registry))\.py "),
        re.compile(r"^(?:Value|Assertion|Type|NotImplemented|Runtime|Argument\w*)Error"),
        confidence=MEDIUM,
    ),
    Place(
        "shards/place", re.compile(r"(?:safetensors/|model_loader/weight_utils\.py |huggingface_hub/)"), innermost=True
    ),
    Place(
        "draft-keys/place",
        re.compile(r"\S+ (?:load_weights|weight_loader|\w*_weight_loader\w*|load_(?:row|column|qkv|merged\w*)_\w+)$"),
        re.compile(r"^(?:Key|Assertion|Value|Attribute|Index|Runtime)Error"),
    ),
    Place(
        "draft-arch/place", re.compile(r"transformers/models/auto/configuration_auto\.py "), re.compile(r"^KeyError")
    ),
)


class FramesOfTraceback:
    """The frames of the present traceback, outermost first."""

    def __init__(self) -> None:
        self._frames: Tuple[str, ...] = ()

    def clear(self) -> None:
        """Forget them: another traceback begins."""
        self._frames = ()

    def take(self, message: str) -> None:
        """Take a line of the traceback into account."""
        match = _FRAME.match(message)
        if match is not None:
            self._frames = (*self._frames[-63:], f"{match.group('path')} {match.group('function') or ''}")

    def place_of(self, exception: str) -> Optional[Place]:
        """Return what the place says about an exception whose line is given, None when it says nothing."""
        for place in PLACES:
            if place.exception is not None and place.exception.search(exception) is None:
                continue
            frames = self._frames[-1:] if place.innermost else self._frames
            if any(place.frame.search(frame) for frame in frames):
                return place
        return None
