from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from controller.playbooks import OWNER_VARIABLE
from controller.process import start_ticks
from controller.sweep import leftovers
from controller.sweep.leftovers import RunningNote

if TYPE_CHECKING:
    from pathlib import Path

SLEEP = "import time; print(flush=True); time.sleep(60)"


def started(*words: str, owner: Path | None = None) -> subprocess.Popen[bytes]:
    environment = os.environ | ({OWNER_VARIABLE: str(owner)} if owner else {})
    child = subprocess.Popen([sys.executable, "-c", SLEEP, *words], env=environment, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    return child


def dead_note(directory: Path, **fields: object) -> None:
    (directory / leftovers.NAME).write_text(
        json.dumps({"sweep_id": "S", "cell": "b01-x", "pid": 1, "start_ticks": -1, **fields})
    )


def test_a_living_controller_leaves_nothing(tmp_path: Path) -> None:
    note = RunningNote(tmp_path, "S")
    note.update(cell="b01-baseline")
    note.update(child=os.getpid())
    content = json.loads((tmp_path / leftovers.NAME).read_text())
    assert content["cell"] == "b01-baseline"
    assert content["child"]["start_ticks"] == start_ticks(os.getpid())
    assert leftovers.find(tmp_path) is None
    note.remove()
    note.remove()
    assert not list(tmp_path.iterdir())


def test_a_playbook_that_starts_ahead_of_time_and_the_next_cell_are_noted_at_once(tmp_path: Path) -> None:
    note = RunningNote(tmp_path, "S")
    cells = 300

    def children() -> None:
        for _ in range(cells):
            note.update(child=os.getpid())

    ahead = threading.Thread(target=children)
    ahead.start()
    for number in range(cells):
        note.update(cell=f"b{number}-baseline")
    ahead.join()
    assert [path.name for path in tmp_path.iterdir()] == [leftovers.NAME]


def test_the_next_cell_does_not_forget_the_playbook_that_was_started_for_it(tmp_path: Path) -> None:
    note = RunningNote(tmp_path, "S")
    note.update(child=os.getpid())
    note.update(cell="b02-baseline")
    assert json.loads((tmp_path / leftovers.NAME).read_text())["child"]["pid"] == os.getpid()


def test_no_note_or_an_unreadable_one_is_nothing(tmp_path: Path) -> None:
    assert leftovers.find(tmp_path) is None
    for text in ("", "[]", "{"):
        (tmp_path / leftovers.NAME).write_text(text)
        assert leftovers.find(tmp_path) is None


def test_ansible_is_found_by_its_mark_and_the_server_it_started_is_not(tmp_path: Path) -> None:
    dead_note(tmp_path)
    ansible = started("/venv/bin/ansible-playbook", owner=tmp_path)
    module = started("/root/.ansible/tmp/AnsiballZ_sglang_health.py", owner=tmp_path)
    server = started("sglang.launch_server", owner=tmp_path)
    foreign = started("/venv/bin/ansible-playbook", owner=tmp_path / "other")
    try:
        found = leftovers.find(tmp_path)
        assert found is not None
        assert set(found.processes) == {ansible.pid, module.pid}
        assert "b01-x" in found.sentence
        assert "its controller is gone" in found.sentence
        assert set(leftovers.finish(found)) == {ansible.pid, module.pid}
        assert ansible.wait(timeout=5) != 0
        assert module.wait(timeout=5) != 0
        assert server.poll() is None
        assert foreign.poll() is None
    finally:
        for child in (ansible, module, server, foreign):
            child.kill()
            child.wait()


def test_a_reused_process_id_is_left_alone(tmp_path: Path) -> None:
    child = started()
    try:
        dead_note(tmp_path, child={"pid": child.pid, "start_ticks": 1})
        found = leftovers.find(tmp_path)
        assert found is not None
        assert found.processes == {}
    finally:
        child.kill()
        child.wait()
