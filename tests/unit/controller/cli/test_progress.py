from __future__ import annotations

import io

from rich.console import Console

from controller.cli.progress import LiveWatcher, make_watcher
from tests.unit.controller.sweep.fakes import plan


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
        "about 10.0 h left",
        "2 finished cells are reused",
    ):
        assert part in shown


def test_plain_can_be_asked_for_on_a_terminal() -> None:
    with make_watcher(console(terminal=True), plain=True) as watcher:
        assert not isinstance(watcher, LiveWatcher)
