"""Journals that this version did not write end in a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.exits import JournalError
from controller.sweep.state import _HANDLERS, SweepState, fold

VALUES = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=2)
FIELDS = ("cell", "state", "attempt", "requests", "cells", "processes", "differences", "host", "launch", "dropped")


def test_a_record_without_what_its_kind_has_is_named() -> None:
    with pytest.raises(JournalError, match=r"record 2 of s/journal.jsonl \(cell\) cannot be read: KeyError\('cell'\)"):
        fold([{"kind": "of a later version"}, {"kind": "cell"}], "s/journal.jsonl")


@given(st.sampled_from(sorted(_HANDLERS)), st.dictionaries(st.sampled_from(FIELDS), VALUES))
def test_no_record_is_a_fault_of_the_program(kind: str, fields: dict[str, Any]) -> None:
    try:
        state = fold([{"kind": kind, **fields}])
    except JournalError:
        return
    assert isinstance(state, SweepState)


@pytest.mark.parametrize("part", ["launch", "info"])
def test_a_part_of_the_wrong_kind_is_named(part: str) -> None:
    with pytest.raises(JournalError, match=f"{part} is 5; expected an object"):
        fold([{"kind": "server", "cell": "b01-baseline", part: 5}])
