"""What is kept of each request: one frozen record, the line of ``requests.jsonl`` and the input of the analysis."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class RecordError(ValueError):
    """A stored record lacks a field or has one of the wrong kind. The message says which."""


@dataclasses.dataclass(frozen=True, slots=True)
class InterTokenSummary:
    """Pauses between the chunks of one streamed answer, in unscaled seconds.

    With speculation a chunk holds all tokens of one verify step, so these are pauses between chunks, not tokens.
    """

    count: int
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float

    @classmethod
    def of(cls, gaps_s: Sequence[float]) -> Self:
        """Summarise pauses (seconds, any order); all zero when there are none."""
        if not gaps_s:
            return cls(0, 0.0, 0.0, 0.0, 0.0, 0.0)
        ordered = sorted(gaps_s)
        return cls(
            count=len(ordered),
            mean_s=math.fsum(ordered) / len(ordered),
            p50_s=nearest_rank(ordered, 0.50),
            p90_s=nearest_rank(ordered, 0.90),
            p99_s=nearest_rank(ordered, 0.99),
            max_s=ordered[-1],
        )


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """Return the nearest-rank quantile (0 < share <= 1) of values that are sorted already."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclasses.dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request: when it ran, how long it took, and what the server said about it.

    All times are unscaled seconds: a simulated server's time scale is divided out before the record is made.
    A failed request is a record too: ``error`` says in one sentence what happened; the counts hold what had arrived.

    Attributes:
        prompt_id: Identifier of the prompt within the workload.
        run: Index of the run within its launch, from 0.
        warmup: True when the request only warms the server up; such records are kept and never analysed.
        started_s: When the request was sent, since the start of its run.
        ttft_s: From sending to the first byte of the first chunk with a token.
        e2e_s: From sending to the first byte of the last chunk with a token.
        decode_s: ``e2e_s - ttft_s``.
        prompt_tokens: Tokens of the prompt, as the server counts them.
        completion_tokens: Tokens of the answer (N).
        verify_steps: Verify steps (V, ``meta_info.spec_verify_ct``); None when the server did not speculate.
        accept_histogram: Element i is the number of verify steps that accepted i draft tokens; None when not reported.
        inter_token_s: Pauses between chunks.
        text_sha256: Hash of the answer, to compare answers without keeping them.
        error: None, or one sentence.
        concurrency: How many requests the run kept in flight.
        first_chunk_tokens: Tokens that came with the first chunk; more than 1 means that chunks were joined on the way.
    """

    prompt_id: int
    run: int
    warmup: bool
    started_s: float
    ttft_s: float
    e2e_s: float
    decode_s: float
    prompt_tokens: int
    completion_tokens: int
    verify_steps: int | None
    accept_histogram: list[int] | None
    inter_token_s: InterTokenSummary
    text_sha256: str
    error: str | None = None
    concurrency: int = 1
    first_chunk_tokens: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary of plain JSON values, keys in the order of the fields."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what ``to_json`` wrote; keys that are not known are ignored, so that newer journals stay readable.

        Raises:
            RecordError: a required field is missing or of the wrong kind.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        try:
            values = {key: value for key, value in data.items() if key in known}
            summary = InterTokenSummary(**values.pop("inter_token_s"))
            record = cls(inter_token_s=summary, **values)
        except (AttributeError, KeyError, TypeError) as error:
            message = (
                f"A request record cannot be read ({error}): the journal was written by something else or is damaged."
            )
            raise RecordError(message) from error
        for names, kind, expected in _KINDS:
            for name in names:
                if not isinstance(getattr(record, name), kind):
                    message = f"A request record has {name} = {getattr(record, name)!r}; expected {expected}."
                    raise RecordError(message)
        if not all(isinstance(count, int) for count in record.accept_histogram or ()):
            raise RecordError("A request record has an accept_histogram that does not hold whole numbers alone.")
        return record


_KINDS = (
    (("started_s", "ttft_s", "e2e_s", "decode_s"), int | float, "seconds as a number"),
    (
        ("prompt_id", "run", "prompt_tokens", "completion_tokens", "concurrency", "first_chunk_tokens"),
        int,
        "a whole number",
    ),
    (("verify_steps",), int | None, "a whole number or null"),
    (("accept_histogram",), list | None, "a list or null"),
    (("text_sha256",), str, "text"),
    (("error",), str | None, "a sentence or null"),
)
"""What a stored request must hold: fields, kind, and the kind in words."""
