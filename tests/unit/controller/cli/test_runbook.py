"""The runbooks can be read with the controller alone."""

from __future__ import annotations

import pytest

from controller import cli
from controller.cli.runbook import RUNBOOKS, names
from controller.exits import Exit


def test_the_list_has_every_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runbook"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == names()
    assert all(len(line.split()) > 1 for line in lines)
    assert "README" not in names()


@pytest.mark.parametrize("name", ["draft-context", "docs/runbooks/draft-context.md", "draft-context.md"])
def test_a_page_by_class_or_path(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runbook", name]) == Exit.OK
    assert capsys.readouterr().out == (RUNBOOKS / "draft-context.md").read_text()


def test_a_page_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runbook", "../README"]) == Exit.USAGE
    assert "there is no runbook '../README'" in capsys.readouterr().err
