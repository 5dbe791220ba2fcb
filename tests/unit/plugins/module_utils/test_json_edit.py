from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.json_edit import JsonDocument, JsonEditError, lookup
from hypothesis import given
from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OTHER_KEYS = st.text(max_size=5).filter(lambda name: name not in {"wanted", "parent"})
SPACE = st.text(alphabet=" \t\r\n", max_size=3)


@st.composite
def formatted_objects(draw: Any) -> tuple[str, str, str, str, list[str]]:
    """Text before a value, the value, text after it, another value, the path; with odd spaces and duplicate keys."""

    def space() -> str:
        return str(draw(SPACE))

    def member(key: str, value: str) -> str:
        return f"{space()}{json.dumps(key, ensure_ascii=draw(st.booleans()))}{space()}:{space()}{value}{space()}"

    def members(least: int) -> list[str]:
        names = draw(
            st.lists(
                st.text(max_size=5).filter(lambda name: name not in {"wanted", "parent"}), min_size=least, max_size=3
            )
        )
        return [member(name, json.dumps(draw(VALUES), indent=draw(st.sampled_from([None, 2])))) for name in names]

    value = json.dumps(draw(VALUES))
    duplicates = [member("wanted", "1")] if draw(st.booleans()) else []
    first = ",".join([*duplicates, *members(0), f'{space()}"wanted"{space()}:{space()}'])
    rest = members(0)
    before = f"{space()}{{{first}"
    after = "".join(f",{text}" for text in rest) + f"{space()}}}{space()}"
    path = ["wanted"]
    if draw(st.booleans()):
        before = f'{{"a": {{}}, "parent":{space()}{before}'
        after = f"{after},{member('b', '[1, {}]')}}}\n"
        path = ["parent", "wanted"]
    return before, value, after, json.dumps(draw(SCALARS)), path


@given(formatted_objects(), st.booleans())
def test_only_the_value_changes(parts: tuple[str, str, str, str, list[str]], has_mark: bool) -> None:
    before, value, after, new, path = parts
    mark = b"\xef\xbb\xbf" if has_mark else b""
    data = mark + (before + value + after).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        return
    document = JsonDocument.parse(data)
    changed = document.replace({tuple(path): json.loads(new)})
    assert changed.to_bytes() == mark + (before + new + after).encode()
    assert lookup(changed.value, tuple(path)) == json.loads(new)
    assert changed.replace({tuple(path): json.loads(value)}).value == document.value


@given(VALUES)
def test_parsing_keeps_the_bytes(value: Any) -> None:
    data = json.dumps({"key": value}, indent=1).encode()
    assert JsonDocument.parse(data).to_bytes() == data


def test_two_values_at_once() -> None:
    document = JsonDocument.parse(b'{"a": 1, "b": {"c": 22}}')
    assert document.replace({("b", "c"): 333, ("a",): 4444}).to_bytes() == b'{"a": 4444, "b": {"c": 333}}'


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b'{"a": 1,\n "b": }', "line 2 column 7"),
        (b"[1]", "a JSON object is needed, this is a list"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a": ' + b"[" * 200_000, "invalid JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "invalid JSON"),
        (b"", "line 1 column 1"),
    ],
)
def test_refusals_name_the_position(data: bytes, sentence: str) -> None:
    with pytest.raises(JsonEditError, match=sentence):
        JsonDocument.parse(data)


@pytest.mark.parametrize(
    ("path", "sentence"), [(("x",), "no key x"), (("a", "b"), r"no key a\.b"), (("o", "b"), r"no key o\.b")]
)
def test_a_missing_key_is_refused(path: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(JsonEditError, match=sentence):
        JsonDocument.parse(b'{"a": 1, "o": {}}').replace({path: 1})


def test_nested_edits_are_refused() -> None:
    with pytest.raises(JsonEditError, match=r"o\.b lies inside o"):
        JsonDocument.parse(b'{"o": {"b": 1}}').replace({("o",): 1, ("o", "b"): 2})


def test_lookup_of_nothing() -> None:
    assert lookup({"a": 1}, ("a", "b")) is None
    assert lookup({"a": 1}, ("c",)) is None
