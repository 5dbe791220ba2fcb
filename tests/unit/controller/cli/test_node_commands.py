"""``status``, ``stop`` and ``clean`` with Ansible replaced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from controller import cli
from controller.cli import node, status
from controller.exits import Exit, LockedError
from controller.inventory import read_target
from controller.lock import NodeLock, holders, node_key
from controller.playbook_events import TaskFailure
from controller.playbooks import PlaybookRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

READY = {
    "ready": True,
    "phase": "serving",
    "url": "http://server",
    "launch": {"pid": 7, "owner": "S9"},
    "server": {
        "version": "0.5.15",
        "served_model_name": "m",
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 3,
    },
}
DIE = (
    "import os, sys\nfrom pathlib import Path\nfrom controller.lock import NodeLock\n"
    "from controller.sweep.leftovers import RunningNote\n"
    "folder, place = Path(sys.argv[2]), Path(sys.argv[3])\n"
    "NodeLock(sys.argv[1], 'box').acquire('S1', folder, workplace=place)\n"
    "RunningNote(place, 'S1').update(cell='b01-baseline')\nos._exit(0)\n"
)


class OneRun:
    """Playbooks that answer once and for all."""

    def __init__(self, answer: PlaybookRun) -> None:
        self.answer = answer
        self.calls: list[str] = []

    def run(
        self,
        playbook: str,
        *,
        directory: Path,
        extra_vars: Mapping[str, Any] | None = None,
        on_phase: Callable[[str], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PlaybookRun:
        del directory, extra_vars
        self.calls.append(playbook)
        if on_phase:
            on_phase("weights")
        cancelled()
        return self.answer


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "hosts.yml"
    path.write_text("inference:\n  hosts:\n    box: {ansible_host: 192.0.2.9}\n")
    return str(path)


def use(monkeypatch: pytest.MonkeyPatch, answer: PlaybookRun) -> OneRun:
    fake = OneRun(answer)
    monkeypatch.setattr(node, "Playbooks", lambda *_: fake)
    monkeypatch.setattr(status, "Playbooks", lambda *_: fake)
    return fake


def dead_sweep(inventory: str, folder: Path, workplace: Path | None = None) -> None:
    """A controller that took the lock, noted its cell and died."""
    place = workplace or folder
    place.mkdir(parents=True)
    key = node_key(read_target(Path(inventory)).lock_identity)
    subprocess.run([sys.executable, "-c", DIE, key, str(folder), str(place)], check=True)


def test_status_of_a_serving_server(
    inventory: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, PlaybookRun("health.yml", "ok", 0, 1.0, (), {"sglang_health": READY}))
    assert cli.main(["status", "-i", inventory]) == Exit.OK
    out = capsys.readouterr().out
    assert "serving m at http://server (SGLang 0.5.15, EAGLE3, 3 steps, process 7, of sweep S9)" in out
    assert "no sweep is running here" in out


def test_status_of_a_loading_and_of_a_dead_server(
    inventory: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, PlaybookRun("health.yml", "cancelled", 254, 1.0, (), {"sglang_health": {"phase": "weights"}}))
    assert cli.main(["status", "-i", inventory]) == Exit.OK
    assert "no server is ready, phase weights\n" in capsys.readouterr().out
    failure = {"phase": "dead", "failure": {"cause": "GPU 3 is full"}}
    use(monkeypatch, PlaybookRun("health.yml", "failed", 2, 1.0, (), {"sglang_health": failure}))
    assert cli.main(["status", "-i", inventory]) == Exit.OK
    assert "phase dead: GPU 3 is full" in capsys.readouterr().out


def test_an_unreachable_target_is_exit_code_3(
    inventory: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = PlaybookRun("x.yml", "unreachable", 4, 1.0, (), {}, TaskFailure("a", "b", "no route"))
    for command in ("status", "stop", "clean"):
        use(monkeypatch, gone)
        assert cli.main([command, "-i", inventory]) == Exit.TARGET
        assert "cannot be reached: no route" in capsys.readouterr().err


def test_stop_says_what_it_ended(
    inventory: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reaped = {"killed": [{"pid": 5, "name": "sglang", "signal": "TERM"}]}
    use(monkeypatch, PlaybookRun("stop.yml", "ok", 0, 1.0, (), {"gpu_reap": reaped}))
    assert cli.main(["stop", "-i", inventory]) == Exit.OK
    assert "the server is stopped, the GPUs are free; ended 5 sglang" in capsys.readouterr().out
    assert cli.main(["clean", "-i", inventory, "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["gpu_reap"] == reaped


def test_status_tells_of_a_dead_sweep_and_stop_cleans_up_after_it(
    inventory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dead_sweep(inventory, tmp_path / "dead")
    use(monkeypatch, PlaybookRun("health.yml", "ok", 0, 1.0, (), {"sglang_health": READY}))
    assert cli.main(["status", "-i", inventory, "--json"]) == Exit.OK
    (found,) = json.loads(capsys.readouterr().out)["sweeps"]
    assert found["alive"] is False
    assert "the server of sweep S1 cell b01-baseline" in found["message"]
    assert "its controller is gone" in found["message"]

    use(monkeypatch, PlaybookRun("stop.yml", "failed", 2, 1.0))
    assert cli.main(["stop", "-i", inventory]) == Exit.TARGET
    assert holders()[0].sweep_id == "S1"
    use(monkeypatch, PlaybookRun("stop.yml", "ok", 0, 1.0))
    assert cli.main(["stop", "-i", inventory]) == Exit.OK
    assert holders() == []
    assert not list((tmp_path / "dead").iterdir())


def test_a_stop_that_runs_or_was_cut_off_is_not_called_a_sweep(
    inventory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, PlaybookRun("health.yml", "ok", 0, 1.0, (), {"sglang_health": READY}))
    key = node_key(read_target(Path(inventory)).lock_identity)
    notes: list[bytes] = []

    def stopping(*_: object) -> PlaybookRun:
        with pytest.raises(LockedError, match="stop is at work on box"):
            NodeLock(key, "box").acquire("S2", tmp_path)
        assert cli.main(["status", "-i", inventory]) == Exit.OK
        notes.extend(note.read_bytes() for note in (tmp_path / "state").rglob("*.json"))
        return PlaybookRun("stop.yml", "ok", 0, 1.0)

    monkeypatch.setattr(node, "_run", stopping)
    assert cli.main(["stop", "-i", inventory]) == Exit.OK
    assert f"stop is at work on box (192.0.2.9): process {os.getpid()}, since" in capsys.readouterr().out

    (note,) = notes
    left = json.loads(note) | {"pid": 1, "start_ticks": -1}
    (tmp_path / "state" / "sglang-eagle3-ops" / "locks" / f"{key}.json").write_text(json.dumps(left))
    assert cli.main(["status", "-i", inventory]) == Exit.OK
    out = capsys.readouterr().out
    assert "stop on box (192.0.2.9) was cut off; repeat it: python -m controller stop" in out
    assert "sweep" not in out.replace("of sweep S9", "")


def test_stop_cleans_up_after_a_host_of_a_dead_fleet(
    inventory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace = tmp_path / "dead" / "hosts" / "box"
    dead_sweep(inventory, tmp_path / "dead", workplace)
    use(monkeypatch, PlaybookRun("stop.yml", "ok", 0, 1.0))
    assert cli.main(["stop", "-i", inventory]) == Exit.OK
    assert holders() == []
    assert not list(workplace.iterdir())
