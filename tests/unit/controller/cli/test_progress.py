from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console

from controller.cli import progress
from controller.cli.progress import LiveWatcher, make_watcher
from controller.launch_progress import LaunchProgress
from tests.unit.controller.sweep.fakes import plan

if TYPE_CHECKING:
    import pytest


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=200, color_system=None)


def text(one: Console) -> str:
    assert isinstance(one.file, io.StringIO)
    return one.file.getvalue()


def test_without_a_terminal_every_step_is_a_plain_line() -> None:
    out = console(terminal=False)
    cells = plan().cells
    with make_watcher(out, plain=False) as watcher:
        watcher.sweep_started(plan(), cells, 0)
        watcher.cell_started(cells[0], 1, 6, 1)
        watcher.phase("draft_weights")
        watcher.measuring("run 1 of 1")
        watcher.tokens(100, 2.0)
        watcher.cell_ended(cells[0], "done", "", 90.0)
        watcher.cell_started(cells[1], 2, 6, 2)
        watcher.cell_ended(cells[1], "failed", "GPU 3 [is] full.", 5.0)
        watcher.note("look here")
    lines = text(out).splitlines()
    assert "cell 1/6, block 1 of 2, arm" in lines[2]
    assert "draft weights" in lines[3]
    assert "attempt 2, about 8 min left" in lines[6]
    assert lines[7].startswith("failed")
    assert lines[7].endswith("GPU 3 [is] full.")
    assert "look here" in lines[8]
    assert "\x1b" not in text(out)


def test_a_terminal_gets_a_live_line_with_phase_speed_and_time_left() -> None:
    out = console(terminal=True)
    cells = plan().cells
    with make_watcher(out, plain=False) as watcher:
        assert isinstance(watcher, LiveWatcher)
        watcher.sweep_started(plan(), cells, 2)
        watcher.cell_started(cells[0], 1, 6, 1)
        watcher.cell_ended(cells[0], "done", "", 7200.0)
        watcher.cell_started(cells[1], 2, 6, 1)
        watcher.phase("target_graphs")
        watcher.live.refresh()
        watcher.measuring("run 1 of 1")
        watcher.tokens(100, 2.0)
        watcher.tokens(100, 0.0)
        watcher.live.refresh()
    shown = text(out)
    for part in (
        "cell 2/6",
        "target graphs",
        "run 1 of 1",
        "50 tok/s so far (simulated)",
        "about 10.0 h left in all",
        "2 finished cells are reused",
    ):
        assert part in shown


def test_plain_can_be_asked_for_on_a_terminal() -> None:
    with make_watcher(console(terminal=True), plain=True) as watcher:
        assert not isinstance(watcher, LiveWatcher)


def test_a_phase_is_said_with_the_time_it_will_take() -> None:
    out = console(terminal=False)
    cells = plan().cells
    with make_watcher(out, plain=True) as watcher:
        watcher.cell_started(cells[0], 1, 6, 1)
        watcher.progress(LaunchProgress("target_graphs", 20.0, 45.0))
        watcher.phase("target_graphs")
        watcher.progress(LaunchProgress("warmup"))
        watcher.phase("serving")  # of another look: nothing is known about it
        watcher.measuring("run 1 of 1")
    assert text(out).splitlines()[1:] == [
        "  target graphs, about 20 s left, ready in about 45 s",
        "  serving",
        "  run 1 of 1",
    ]


def test_a_phase_that_lasts_is_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    out = console(terminal=False)
    cells = plan().cells
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    with make_watcher(out, plain=True) as watcher:
        watcher.cell_started(cells[0], 1, 6, 1)
        watcher.progress(LaunchProgress("weights", shards=(0, 64)))
        watcher.phase("weights")
        watcher.progress(LaunchProgress("weights", shards=(24, 64)))
    assert text(out).splitlines()[1:] == ["  weights, 0 of 64 shards", "  weights, 24 of 64 shards"]


def test_the_live_line_counts_down(monkeypatch: pytest.MonkeyPatch) -> None:
    out = console(terminal=True)
    cells = plan().cells
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with make_watcher(out, plain=False) as watcher:
        assert isinstance(watcher, LiveWatcher)
        watcher.cell_started(cells[0], 1, 6, 1)
        watcher.progress(LaunchProgress("weights", 30.0, 80.0, (12, 64)))
        watcher.phase("weights")
        clock[0] = 110.0
        watcher.live.refresh()
        watcher.progress(LaunchProgress("weights", 0.0, 50.0, (64, 64)))
        clock[0] = 136.0
        watcher.live.refresh()
        watcher.measuring("run 1 of 1")
        watcher.live.refresh()
    shown = text(out)
    assert "weights, 12 of 64 shards, about 20 s left, ready in about 70 s" in shown
    assert "weights, 64 of 64 shards, longer than before" in shown
    assert "run 1 of 1 " in shown
