from __future__ import annotations

from pathlib import Path

import pytest

from controller.apply.yaml_variables import names_in, variables_in
from controller.exits import InputError

PATH = Path("box.yml")
TAGGED = "a: !vault x\nb: !unsafe [1, 2]\nc: !thing {d: 1}\n"


def test_tags_that_only_ansible_knows_are_passed_over() -> None:
    found = variables_in(PATH, TAGGED)
    assert found["a"] == ("vault", "x")
    assert found["b"] == ("unsafe", [1, 2])
    assert found["c"] == ("thing", {"d": 1})
    assert list(names_in(PATH, f"{TAGGED}? [1, 2]\n: no name\ne: 1\n")) == [("a", 1), ("b", 2), ("c", 3), ("e", 6)]


@pytest.mark.parametrize("text", ["", "---\n", "# nothing\n"])
def test_nothing_is_no_variables(text: str) -> None:
    assert variables_in(PATH, text) == {}
    assert list(names_in(PATH, text)) == []


def test_what_is_no_list_of_variables() -> None:
    assert list(names_in(PATH, "- a\n")) == []
    assert variables_in(PATH, "- a\n", fallback={"x": 1}) == {"x": 1}
    assert variables_in(PATH, "a: [\n", fallback={}) == {}
    with pytest.raises(InputError, match="does not hold variables"):
        variables_in(PATH, "- a\n")
    for read in (variables_in, names_in):
        with pytest.raises(InputError, match=r"box.yml, line 2 is not YAML"):
            list(read(PATH, "a: [\n"))
