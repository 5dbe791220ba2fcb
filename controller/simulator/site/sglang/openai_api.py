"""The OpenAI-compatible bodies (srt/entrypoints/openai, 0.5.15)."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from .http_server import HttpResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def error(message: str) -> HttpResponse:
    """Return a refusal in the shape of the OpenAI API."""
    return HttpResponse.json(
        {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}, 400
    )


def models(name: str, created: int, context_length: int) -> dict[str, Any]:
    """Return the body of /v1/models."""
    card = {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "sglang",
        "root": name,
        "parent": None,
        "max_model_len": context_length,
    }
    return {"object": "list", "data": [card]}


def prompt_of(messages: object) -> str:
    """Return the text of a chat.

    Raises:
        ValueError: ``messages`` is not a list of messages.
    """
    if not isinstance(messages, list) or not messages:
        raise ValueError("messages must be a list of at least one message.")
    parts = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = " ".join(part.get("text", "<image>") for part in content)
        parts.append(f"<|{message.get('role')}|>{content}")
    return "\n".join(parts)


def sampling_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the native sampling parameters of a request."""
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    return {
        "max_new_tokens": limit,
        "temperature": body.get("temperature", 1.0),
        "ignore_eos": body.get("ignore_eos", False),
        "sampling_seed": body.get("seed"),
    }


class Reply:
    """Turns native answers into those of /v1/completions or /v1/chat/completions."""

    def __init__(self, model: str, chat: bool, body: dict[str, Any]) -> None:
        self._model = model
        self._chat = chat
        self._include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._return_meta_info = bool(body.get("return_meta_info")) and chat
        self._id = uuid.uuid4().hex
        self._created = int(time.time())

    def _envelope(self, kind: str, choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": choices,
            "usage": usage,
        }

    def complete(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the body without streaming."""
        reason = answer["meta_info"]["finish_reason"]
        choice: dict[str, Any] = {"index": 0}
        if self._chat:
            choice["message"] = {
                "role": "assistant",
                "content": answer["text"],
                "reasoning_content": None,
                "tool_calls": None,
            }
        else:
            choice["text"] = answer["text"]
        choice.update(logprobs=None, finish_reason=reason["type"], matched_stop=reason.get("matched"))
        if self._return_meta_info:
            choice["meta_info"] = answer["meta_info"]
        kind = "chat.completion" if self._chat else "text_completion"
        return {**self._envelope(kind, [choice], _usage(answer)), "metadata": {"weight_version": "default"}}

    async def chunks(self, answers: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """Yield the bodies of a stream: only what is new in each."""
        sent = 0
        answer: dict[str, Any] = {}
        if self._chat:
            yield self._chunk({"role": "assistant", "content": ""}, None)
        async for answer in answers:
            new, sent = answer["text"][sent:], len(answer["text"])
            yield self._chunk({"content": new} if self._chat else new, None)
        reason = answer["meta_info"]["finish_reason"]
        yield self._chunk({"content": None} if self._chat else "", reason)
        if self._include_usage:
            kind = "chat.completion.chunk" if self._chat else "text_completion"
            yield self._envelope(kind, [], _usage(answer))

    def _chunk(self, new: object, reason: dict[str, Any] | None) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, ("delta" if self._chat else "text"): new, "logprobs": None}
        choice["finish_reason"] = None if reason is None else reason["type"]
        choice["matched_stop"] = None if reason is None else reason.get("matched")
        return self._envelope("chat.completion.chunk" if self._chat else "text_completion", [choice], None)


def _usage(answer: dict[str, Any]) -> dict[str, Any]:
    meta = answer["meta_info"]
    prompt, made = meta["prompt_tokens"], meta["completion_tokens"]
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + made,
        "completion_tokens": made,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
    }
