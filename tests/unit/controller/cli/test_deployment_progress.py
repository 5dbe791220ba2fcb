from __future__ import annotations

import io

from rich.console import Console

from controller.cli.deployment_progress import DeploymentLive, deployment_watcher


def shown(*, terminal: bool, plain: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, color_system=None)
    with deployment_watcher(console, plain=plain, simulated=True) as watcher:
        watcher.began("deployment 1 (steps-3 of sweep S)")
        watcher.step("writing")
        watcher.phase("memory_pool")
        watcher.step("canary")
        watcher.tokens(0, 0.0)
        watcher.tokens(80, 1.0)
        if isinstance(watcher, DeploymentLive):
            watcher.live.refresh()
        watcher.note("something [important]")
        watcher.ended("rolled back", "it was slow")
    return out.getvalue()


def test_plain_lines() -> None:
    text = shown(terminal=False)
    lines = text.splitlines()
    assert lines[0] == "deployment 1 (steps-3 of sweep S) (simulated)"
    assert "  memory pool" in lines
    assert "note      something [important]" in lines
    assert lines[-1].startswith("rolled back deployment 1")
    assert lines[-1].endswith(": it was slow")
    assert shown(terminal=True, plain=True).splitlines()[1] == "  writing"


def test_a_live_line_with_the_speed_so_far() -> None:
    text = shown(terminal=True)
    assert "80 tok/s so far (simulated)" in text
    assert "  writing\n" not in text
