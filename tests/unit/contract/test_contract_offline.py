"""The part of the version contract that needs no wheels: recorded answers, the table, and the readers of source."""

from __future__ import annotations

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_flags import known_flags
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_release_data import RELEASES

from tests.contract import report
from tests.contract.expectations import SERVER_FLAGS
from tests.contract.flags_in_source import flags_in
from tests.contract.wheels import VERSIONS


def test_all_versions_are_recorded_and_as_expected() -> None:
    recorded = report.load()
    assert [one.version for one in recorded] == list(VERSIONS)
    assert report.violations(recorded) == []


def test_the_page_is_what_the_record_renders() -> None:
    assert report.TABLE.read_text() == report.render(report.load())


def test_the_shipped_data_speaks_of_the_same_versions() -> None:
    assert [release.version for release in RELEASES] == list(VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_knows_the_flags_of_the_server_role(version: str) -> None:
    assert set(SERVER_FLAGS) <= (known_flags(version) or frozenset())


def test_flags_are_read_from_both_forms() -> None:
    source = """
class Spec:
    draft_steps: A[Optional[int], "help"] = None
    tp_size: A[int, Arg(help="x", aliases=["--tensor-parallel-size"])] = 1
    hidden: A[int, Arg(no_cli=True)] = 1
    other: A[int, Arg(cli_name="--named")] = 1
    plain: int = 1
def add_cli_args(parser):
    parser.add_argument("--model-path", "--model", type=str)
    parser.add_argument("positional")
"""
    wanted = {"--draft-steps", "--tp-size", "--tensor-parallel-size", "--named", "--model-path", "--model"}
    assert flags_in(source) == wanted
