from __future__ import annotations

import os
from typing import Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.nccl_startup_files import (
    UNSET,
    VariableError,
    check_names,
    check_variables,
    is_foreign,
    pth_text,
    reasons_against_sitecustomize,
    with_block,
    without_block,
)
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.text(alphabet=st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]))


@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,9}", fullmatch=True), VALUES, min_size=1, max_size=4))
def test_both_files_set_what_is_not_set(variables: dict[str, str]) -> None:
    texts = [with_block(None, variables), pth_text(variables).splitlines()[1]]
    assert all(text.isascii() for text in texts)
    for text in texts:
        environment = {next(iter(variables)): "launcher"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "environ", environment)
            exec(text, {})  # noqa: S102 (our own text, as Python's site module runs it)
        assert environment == {**variables, next(iter(variables)): "launcher"}


@pytest.mark.parametrize("text", [with_block(None, {"A": "1", "B": "2"}), pth_text({"A": "1", "B": "2"})])
def test_what_a_launch_leaves_out_is_not_set(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for unset, expected in (("A", {"B": "2"}), ("A,B", {}), ("", {"A": "1", "B": "2"}), ("C", {"A": "1", "B": "2"})):
        environment = {UNSET: unset}
        monkeypatch.setattr(os, "environ", environment)
        exec(text, {})  # noqa: S102 (our own text, as Python's site module runs it)
        assert environment == {UNSET: unset, **expected}


def test_names_to_leave_out() -> None:
    assert check_names(["NCCL_ALGO", "no_proxy"]) == ["NCCL_ALGO", "no_proxy"]
    with pytest.raises(VariableError, match="not a variable's name"):
        check_names(["A,B"])


@pytest.mark.parametrize("around", [("", ""), ("import a\n", "import b\n"), ("# no line break at the end", "")])
def test_lines_around_the_block_stay(around: tuple[str, str]) -> None:
    before, after = around
    text = before + with_block(None, {"A": "1"}) + after
    assert with_block(text, {"A": "2"}) == before + with_block(None, {"A": "2"}) + after
    assert without_block(text) == (before + after or None)


def test_foreign_files() -> None:
    assert not is_foreign(None)
    assert is_foreign("")
    assert not is_foreign(with_block(None, {"A": "1"}))
    assert without_block("import a\n") == "import a\n"
    assert without_block(None) is None
    assert reasons_against_sitecustomize(None, "/own", "/own") == []
    assert len(reasons_against_sitecustomize("", "/own", "/usr")) == 2


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({}, "is empty"),
        ({"lower": "1"}, "not a variable's name"),
        ({"A=B": "1"}, "not a variable's name"),
        ({"A": "1\n2"}, "line break"),
        ({"A": "\0"}, "NUL"),
        ({"A": None}, "give a text or a number"),
        ({"A": True}, "give a text or a number"),
    ],
)
def test_refused_variables(variables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(VariableError, match=sentence):
        check_variables(variables)


def test_numbers_become_text() -> None:
    assert check_variables({"A": 16777216, "_B2": "LL"}) == {"A": "16777216", "_B2": "LL"}
