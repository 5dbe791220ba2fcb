from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.analysis.conditions import conditions_from
from controller.analysis.sweep import analyse
from tests.unit.controller.analysis.builders import launch, sweep

COOL = {
    "samples": 10,
    "sm_mhz_lowest": 2430.0,
    "sm_mhz_median": 2500.0,
    "temperature_c": 60.0,
    "power_w": 400.0,
    "throttling": {},
    "memory_growth_mib": 0.0,
}


def flags(gpu: dict[str, Any] | None, foreign: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    launches = sweep({"steps=3": [60.0, 60.1, 60.2]}, [82.0, 82.1, 82.2])
    launches[-1] = replace(launches[-1], conditions=conditions_from(gpu, foreign or []))
    analysis = analyse(launches)
    assert analysis.levels[0].arm("steps=3").launches == 3
    return {flag.code: flag for flag in analysis.flags}


def test_nothing_recorded_is_nothing_said() -> None:
    assert conditions_from(None) is None
    assert not {"throttled", "foreign_process", "foreign_memory"} & set(flags(COOL))


@pytest.mark.parametrize(
    ("throttling", "flagged"),
    [
        ({"hw_thermal_slowdown": 0.01}, True),
        ({"hw_slowdown": 1.0, "sw_power_cap": 1.0}, True),
        ({"sw_power_cap": 0.4}, False),
        ({"sw_power_cap": 0.6}, True),
        ({"sync_boost": 1.0}, False),
    ],
)
def test_lower_clocks_are_flagged(throttling: dict[str, float], flagged: bool) -> None:
    found = flags({**COOL, "throttling": throttling})
    assert ("throttled" in found) is flagged
    if flagged:
        assert found["throttled"].cell_id == "2-steps=3"
        assert not found["throttled"].fault


def test_others_on_the_gpus_are_flagged() -> None:
    found = flags(None, [{"pid": 7, "name": "python3", "owner": "container 130"}] * 2)
    assert found["foreign_process"].values == {"processes": "python3 (container 130)"}
    assert "foreign_memory" in flags({**COOL, "memory_growth_mib": 4096.0})


def test_conditions_are_shown_with_the_launch_and_in_json() -> None:
    one = launch("baseline", 80.0, conditions=conditions_from(COOL), warmup=launch("baseline", 70.0).runs[:1])
    point = analyse([one]).to_json()["levels"][0]["arms"][0]["points"][0]
    assert point["conditions"]["temperature_c"] == 60.0
    assert point["warmup_requests"] == 4
    assert point["warmup_tokens_per_s"] == pytest.approx(70.0)
