from __future__ import annotations

import os
import time

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_clock import LaunchClock


def clock(age_s: float) -> LaunchClock:
    """A launch that began ``age_s`` seconds ago."""
    ticks = int((time.clock_gettime(time.CLOCK_BOOTTIME) - age_s) * os.sysconf("SC_CLK_TCK"))
    return LaunchClock(time.time() - age_s, ticks)


def test_nothing_is_corrected_while_nobody_sets_the_clock() -> None:
    one = clock(20.0)
    assert one.elapsed_s == pytest.approx(20.0, abs=0.5)
    assert one.step_s == 0.0
    assert one.unstepped(one.started_at - 500) == one.started_at - 500


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_stamps_from_before_and_after_a_step(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    one, real = clock(20.0), time.time
    before = real() - 15.0
    monkeypatch.setattr(time, "time", lambda: real() + step_s)
    assert one.elapsed_s == pytest.approx(20.0, abs=0.5)
    assert one.step_s == pytest.approx(step_s, abs=0.5)
    assert one.now_epoch_s == pytest.approx(real(), abs=0.5)
    assert one.unstepped(before) == before
    assert one.unstepped(time.time() - 5.0) == pytest.approx(real() - 5.0, abs=0.5)
    assert one.unstepped(before - 7 * 86400) == before - 7 * 86400


def test_without_a_start_time_the_wall_clock_counts() -> None:
    one = LaunchClock(time.time() - 20.0, 0)
    assert one.elapsed_s == pytest.approx(20.0, abs=0.5)
    assert one.step_s == 0.0
