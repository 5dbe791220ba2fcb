from __future__ import annotations

import pytest

from controller.exits import ControllerError, Exit
from controller.fleet.ending import FleetEnding, raise_refusal


@pytest.mark.parametrize("code", [Exit.RUN_FAILED, Exit.USAGE, Exit.TARGET, Exit.LOCKED, Exit.JOURNAL])
def test_what_a_host_refuses_with_is_what_the_sweep_ends_with(code: Exit) -> None:
    with pytest.raises(ControllerError, match="node1: no") as caught:
        raise_refusal(FleetEnding(refused=(code, "node1: no")))
    assert caught.value.exit_code is code


def test_without_a_refusal_nothing_is_raised() -> None:
    raise_refusal(FleetEnding())
