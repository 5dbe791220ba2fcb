from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.load.chat_format import FORMATS, ChatFormatError, chat_format
from controller.load.workload import Prompt, Workload, WorkloadError, built_in_names, load

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", built_in_names())
def test_built_in_workloads_repeat_nothing(name: str) -> None:
    workload = load(name)
    texts = [workload.text_of(prompt) for prompt in workload.prompts]
    assert len(texts) >= 24
    assert len(set(texts)) == len(texts)
    assert not any("{" in text or "}" in text for text in texts)


def test_the_mixed_workload_is_mixed_in_every_run() -> None:
    workload = load("mixed")
    for run in range(workload.repeats):
        categories = {prompt.category for prompt in workload.select(run=run, concurrency=1)}
        assert categories == {"code", "explanation", "translation", "reasoning", "summary"}
    assert load("mixed", concurrency_levels=(1, 8, 32, 128)).prompts_needed <= len(workload.prompts)


def test_no_field_of_a_template_is_left() -> None:
    workload = load("mixed")
    for prompt in workload.prompts:
        assert not any(f"{{{field}}}" in workload.text_of(prompt) for field in ("topic", "audience", "flavour"))
    text = json.dumps([prompt.to_json() for prompt in workload.prompts])
    for field in ("task", "language", "topic", "audience", "text", "style", "question", "check", "how", "extra"):
        assert "{" + field + "}" not in text


@given(
    st.lists(st.integers(1, 16), min_size=1, max_size=3, unique=True),
    st.integers(1, 4),
    st.integers(1, 8),
    st.integers(0, 3),
)
def test_no_prompt_comes_twice_within_a_launch(levels: list[int], repeats: int, per_run: int, warmup: int) -> None:
    workload = load("mixed", concurrency_levels=levels, repeats=repeats, prompts_per_run=per_run, warmup_prompts=warmup)
    asked: list[Prompt] = []
    for level in levels:
        asked += workload.select(run=0, concurrency=level, warmup=True)
        for run in range(repeats):
            chosen = workload.select(run=run, concurrency=level)
            assert len(chosen) == workload.run_size(level) >= level
            asked += chosen
    assert len({prompt.id for prompt in asked}) == len(asked) == workload.prompts_needed


def test_seed_orders_and_fingerprint_follows() -> None:
    one, same, other = load("code"), load("code"), load("code", seed=1)
    assert one.fingerprint == same.fingerprint
    assert one.fingerprint != other.fingerprint
    assert one.lines() != other.lines()
    assert one.fingerprint != load("code", output_tokens=128).fingerprint


def test_frozen_prompts_come_back(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    workload = load("code", repeats=2, seed=3)
    digest = workload.freeze(path)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    again = load(path, **workload.settings())
    assert again == workload
    assert again.fingerprint == workload.fingerprint


def test_own_prompts(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"text": "a"}\n\n{"id": 7, "messages": [{"role": "user", "content": "b"}]}\n')
    workload = load(path, repeats=1, prompts_per_run=1, warmup_prompts=1, chat_format="chatml")
    assert workload.name == "own"
    assert [prompt.id for prompt in workload.prompts] == [0, 7]
    assert workload.text_of(workload.prompts[0]) == "a"
    assert workload.text_of(workload.prompts[1]) == "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", "line 1 is not a JSON object"),
        ("[1]", "line 1 is not a JSON object"),
        ("{}", "either text or messages"),
        ('{"text": "a", "messages": []}', "exactly one"),
        ('{"text": ""}', "non-empty"),
        ('{"messages": [{"role": "user"}]}', "role and content"),
        ('{"text": "a", "id": "x"}', "line 1"),
    ],
)
def test_refuses_lines(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(line)
    with pytest.raises(WorkloadError, match=words):
        load(path)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"repeats": 0}, "repeats = 0"),
        ({"output_tokens": 1}, "at least 2"),
        ({"concurrency_levels": ()}, "concurrency levels"),
        ({"concurrency_levels": (1, 1)}, "different numbers"),
        ({"temperature": -1.0}, "negative"),
        ({"repeats": 1000}, "fewer runs"),
        ({"colour": 1}, "no setting colour"),
    ],
)
def test_refuses_settings(settings: dict[str, object], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        load("mixed", **settings)


def test_refuses_the_rest() -> None:
    with pytest.raises(WorkloadError, match="neither a file nor built in; built in are code, mixed"):
        load("no-such")
    twice = (Prompt(1, "", "a"), Prompt(2, "", "a"))
    with pytest.raises(WorkloadError, match="twice"):
        Workload("w", twice)
    with pytest.raises(WorkloadError, match="run 0 at 8"):
        load("mixed").select(run=0, concurrency=8)
    with pytest.raises(WorkloadError, match="choose one of chatml, kimi-k2, llama-3, plain"):
        load("mixed", chat_format="no-such")
    with pytest.raises(ChatFormatError, match="role 'tool'"):
        chat_format("chatml").render([{"role": "tool", "content": ""}])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"messages": [{"role": "tool", "content": "x"}]}', "Workload prompts: A message has role 'tool'"),
        ('{"text": "half a character: \\ud83d"}', "Workload prompts .* cannot be written as UTF-8"),
        ('{"id": 1e400, "text": "x"}', "line 1 is not a JSON object with text or messages"),
    ],
)
def test_refuses_prompts_that_cannot_be_asked(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(WorkloadError, match=words):
        load(path, repeats=1, prompts_per_run=1, warmup_prompts=0)


def test_what_is_frozen_is_read_back_whatever_ends_a_line_elsewhere(tmp_path: Path) -> None:
    texts = ("a\u2028b\u2029c\x85d", "e\r\nf\rg\x0bh\x0ci\x1cj")
    prompts = tuple(Prompt(number, "", text) for number, text in enumerate(texts))
    workload = Workload("frozen", prompts, repeats=1, prompts_per_run=2, warmup_prompts=0)
    workload.freeze(tmp_path / "frozen.jsonl")
    assert load(tmp_path / "frozen.jsonl", **workload.settings()) == workload


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_formats_keep_the_words(name: str) -> None:
    text = FORMATS[name].render([{"role": "system", "content": "be {role}"}, {"role": "user", "content": "hello"}])
    assert "be {role}" in text
    assert text.index("be {role}") < text.index("hello")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match=r"prompts\.jsonl is not text in UTF-8 \(byte 0\)"):
        load(path)
