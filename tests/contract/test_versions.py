"""One test for each release, and one that the shipped data is what the wheels say. Fetches what the cache lacks."""

from __future__ import annotations

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_flags import known_flags

from tests.contract import report
from tests.contract.flags_in_source import flags_of
from tests.contract.wheels import VERSIONS, FetchError, Wheel, open_wheel

pytestmark = pytest.mark.contract


def wheel_of(version: str) -> Wheel:
    try:
        return open_wheel(version)
    except FetchError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_we_rely_on_is_there(version: str) -> None:
    assert report.violations([report.examine(wheel_of(version))]) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_shipped_flags_are_those_of_the_source(version: str) -> None:
    assert known_flags(version) == flags_of(wheel_of(version))
