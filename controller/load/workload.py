"""What is asked of the server: prompts and how they are dealt out to the runs of a launch.

Every launch of every arm asks the same prompts in the same runs, and no prompt comes twice within a launch: a repeated
one would be answered from the prefix cache and would make acceptance look better than it is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from controller.load.chat_format import ChatFormatError, chat_format
from controller.load.prompt_templates import expand

if TYPE_CHECKING:
    from collections.abc import Mapping

BUILT_IN = Path(__file__).parent / "workloads"


class WorkloadError(ValueError):
    """A workload cannot be read or does not fit the plan. The message says what to change."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: either ``text``, sent as it is, or ``messages``, rendered by the workload's chat format."""

    id: int
    category: str
    text: str | None = None
    messages: tuple[Mapping[str, str], ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the line of ``prompts.jsonl``."""
        body = {"text": self.text} if self.messages is None else {"messages": [dict(item) for item in self.messages]}
        return {"id": self.id, "category": self.category, **body}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, default_id: int) -> Self:
        """Read one line.

        Raises:
            WorkloadError: it has neither or both of ``text`` and ``messages``, or they are of the wrong kind.
        """
        text, messages = data.get("text"), data.get("messages")
        if (text is None) == (messages is None):
            message = f"Prompt {data.get('id', default_id)} needs either text or messages, exactly one of them."
            raise WorkloadError(message)
        if text is not None and not (isinstance(text, str) and text):
            message = f"Prompt {data.get('id', default_id)} has a text that is not a non-empty string."
            raise WorkloadError(message)
        if messages is not None and not (
            isinstance(messages, list)
            and messages
            and all(
                isinstance(item, dict) and isinstance(item.get("role"), str) and isinstance(item.get("content"), str)
                for item in messages
            )
        ):
            message = (
                f"Prompt {data.get('id', default_id)} has messages that are not a list of role and content strings."
            )
            raise WorkloadError(message)
        return cls(
            id=int(data.get("id", default_id)),
            category=str(data.get("category", "")),
            text=text,
            messages=None if messages is None else tuple(messages),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """Prompts with the settings under which they are asked.

    Attributes:
        name: Name of the built-in workload, or stem of the file.
        prompts: The pool. It must hold enough for all runs of one launch.
        output_tokens: Length limit of each answer (``max_new_tokens``).
        concurrency_levels: How many requests are kept in flight; each launch measures every level.
        repeats: Runs per level.
        prompts_per_run: Prompts of a run at concurrency 1; higher levels ask at least twice their concurrency.
        warmup_prompts: Prompts asked, and not analysed, before the first run.
        ignore_eos: True forces the full length, which pushes text past its natural end and distorts acceptance; False
            ends answers where the model does.
        temperature: Sampling temperature; 0 compares like with like.
        seed: Orders the pool.
        chat_format: Name of the format that renders messages.
    """

    name: str
    prompts: tuple[Prompt, ...]
    output_tokens: int = 256
    concurrency_levels: tuple[int, ...] = (1,)
    repeats: int = 3
    prompts_per_run: int = 8
    warmup_prompts: int = 2
    ignore_eos: bool = False
    temperature: float = 0.0
    seed: int = 0
    chat_format: str = "plain"

    def __post_init__(self) -> None:
        """Check that the settings make sense and that the pool is large enough."""
        texts = self._texts()
        for name in ("output_tokens", "repeats", "prompts_per_run"):
            if getattr(self, name) < 1:
                message = f"Workload {self.name} has {name} = {getattr(self, name)}; it must be at least 1."
                raise WorkloadError(message)
        if self.output_tokens < 2:
            message = f"Workload {self.name} asks for one token; decode speed needs at least 2 (256 is usual)."
            raise WorkloadError(message)
        levels = self.concurrency_levels
        if not levels or min(levels) < 1 or len(set(levels)) != len(levels):
            message = (
                f"Workload {self.name} has concurrency levels {list(levels)}; give different numbers of at least 1."
            )
            raise WorkloadError(message)
        if self.temperature < 0 or self.warmup_prompts < 0:
            message = f"Workload {self.name} has a negative temperature or number of warm-up prompts."
            raise WorkloadError(message)
        ids = [prompt.id for prompt in self.prompts]
        if len(set(ids)) != len(ids) or len(set(texts)) != len(ids):
            message = f"Workload {self.name} holds a prompt or an id twice; within a launch no prompt may repeat."
            raise WorkloadError(message)
        if self.prompts_needed > len(ids):
            message = (
                f"Workload {self.name} has {len(ids)} prompts, but {self.repeats} runs at concurrency "
                f"{', '.join(map(str, levels))} need {self.prompts_needed}: "
                "give more prompts, fewer runs or lower concurrency."
            )
            raise WorkloadError(message)

    def _texts(self) -> list[str]:
        """Return the text of every prompt.

        Raises:
            WorkloadError: the chat format does not know a role, or a text is none that can be sent.
        """
        try:
            chat_format(self.chat_format)
            texts = [self.text_of(prompt) for prompt in self.prompts]
        except ChatFormatError as error:
            message = f"Workload {self.name}: {error}"
            raise WorkloadError(message) from error
        try:
            self.lines().encode()
        except UnicodeEncodeError as error:
            message = f"Workload {self.name} holds a text that cannot be written as UTF-8 ({error.reason})."
            raise WorkloadError(message) from error
        return texts

    @property
    def prompts_needed(self) -> int:
        """Prompts that one launch asks, warm-up included."""
        return sum(self.warmup_size(level) + self.repeats * self.run_size(level) for level in self.concurrency_levels)

    def run_size(self, concurrency: int) -> int:
        """Prompts of one run: enough that the level is really reached."""
        return self.prompts_per_run if concurrency == 1 else max(self.prompts_per_run, 2 * concurrency)

    def warmup_size(self, concurrency: int) -> int:
        """Warm-up prompts of one level: at least one for each stream, so that its batch size is warm too."""
        return self.warmup_prompts and max(self.warmup_prompts, concurrency)

    def select(self, *, run: int, concurrency: int, warmup: bool = False) -> tuple[Prompt, ...]:
        """Return the prompts of one run: the same in every launch, and of no other run of the launch.

        Raises:
            WorkloadError: the plan has no such run or level.
        """
        if concurrency not in self.concurrency_levels or not (warmup or 0 <= run < self.repeats):
            message = (
                f"Workload {self.name} is dealt out to runs 0 to {self.repeats - 1} at concurrency "
                f"{', '.join(map(str, self.concurrency_levels))}; run {run} at {concurrency} is not among them."
            )
            raise WorkloadError(message)
        offset = 0
        for level in self.concurrency_levels:
            if level == concurrency:
                break
            offset += self.warmup_size(level) + self.repeats * self.run_size(level)
        if warmup:
            return self.prompts[offset : offset + self.warmup_size(concurrency)]
        offset += self.warmup_size(concurrency) + run * self.run_size(concurrency)
        return self.prompts[offset : offset + self.run_size(concurrency)]

    def text_of(self, prompt: Prompt) -> str:
        """Return the text that is sent for a prompt."""
        if prompt.text is not None:
            return prompt.text
        return chat_format(self.chat_format).render(prompt.messages or ())

    def sampling_params(self) -> dict[str, Any]:
        """Return the ``sampling_params`` of ``/generate``."""
        return {"temperature": self.temperature, "max_new_tokens": self.output_tokens, "ignore_eos": self.ignore_eos}

    def settings(self) -> dict[str, Any]:
        """Return everything but the prompts, for the plan; ``load(path, **settings)`` takes it back."""
        return {
            field.name: list(value) if isinstance(value := getattr(self, field.name), tuple) else value
            for field in dataclasses.fields(self)
            if field.name != "prompts"
        }

    def lines(self) -> str:
        """Return the content of ``prompts.jsonl``."""
        return "".join(json.dumps(prompt.to_json(), ensure_ascii=False) + "\n" for prompt in self.prompts)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over prompts and settings: two launches may be compared when it is the same."""
        text = json.dumps(self.settings(), sort_keys=True) + "\n" + self.lines()
        return hashlib.sha256(text.encode()).hexdigest()

    def freeze(self, path: Path | str) -> str:
        """Write the prompts to ``path`` (JSON lines) and return the SHA-256 of the file."""
        data = self.lines().encode()
        Path(path).write_bytes(data)
        return hashlib.sha256(data).hexdigest()


def built_in_names() -> tuple[str, ...]:
    """Return the names of the workloads that are shipped."""
    return tuple(sorted(path.stem for path in BUILT_IN.glob("*.json")))


def load(name_or_path: str | Path, **settings: Any) -> Workload:  # noqa: ANN401  # checked against the fields below
    """Load a built-in workload by name, or a JSON-lines file of prompts by path.

    Args:
        name_or_path: A name out of ``built_in_names()``, or a file with one prompt a line.
        settings: Fields of ``Workload`` that override the defaults (what ``Workload.settings()`` gave is accepted).

    Raises:
        WorkloadError: there is no such workload, a line cannot be read, or a setting makes no sense.
    """
    known = {field.name for field in dataclasses.fields(Workload)} - {"prompts"}
    if unknown := sorted(set(settings) - known):
        message = f"A workload has no setting {', '.join(unknown)}; it has {', '.join(sorted(known))}."
        raise WorkloadError(message)
    if "concurrency_levels" in settings:
        settings["concurrency_levels"] = tuple(settings["concurrency_levels"])
    if str(name_or_path) in built_in_names():
        document = json.loads((BUILT_IN / f"{name_or_path}.json").read_text(encoding="utf-8"))
        prompts = tuple(
            Prompt(id=index, category=category, messages=({"role": "user", "content": text},))
            for index, (category, text) in enumerate(expand(document, seed=settings.get("seed", 0)))
        )
        return Workload(**{"name": str(name_or_path), **settings, "prompts": prompts})
    path = Path(name_or_path)
    if not path.is_file():
        message = f"Workload {name_or_path} is neither a file nor built in; built in are {', '.join(built_in_names())}."
        raise WorkloadError(message)
    return Workload(**{"name": path.stem, **settings, "prompts": _read(path)})


def _read(path: Path) -> tuple[Prompt, ...]:
    """Read the prompts of a JSON-lines file."""
    prompts = []
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        words = f"{path} is not text in UTF-8 (byte {error.start})."
        raise WorkloadError(words) from error
    # Not splitlines(): a text may hold what ends a line elsewhere, such as U+2028.
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            prompts.append(Prompt.from_json(data, default_id=number - 1))
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            message = f"{path}, line {number}: {error}" if isinstance(error, WorkloadError) else None
            message = message or f"{path}, line {number} is not a JSON object with text or messages."
            raise WorkloadError(message) from error
    return tuple(prompts)
