from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.exits import Exit, InputError, LockedError
from controller.lock import NodeLock, holders, node_key, read_holder

HOLD = (
    "import sys, time\nfrom pathlib import Path\nfrom controller.lock import NodeLock\n"
    "lock = NodeLock('key', 'node', Path(sys.argv[1]))\n"
    "lock.acquire('SWEEP', Path('/sweeps/one'))\nprint(flush=True)\ntime.sleep(60)\n"
)


def held_by_a_child(directory: Path) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(directory)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline()
    return child


def test_a_second_sweep_is_refused_and_told_who_holds_the_node(tmp_path: Path) -> None:
    child = held_by_a_child(tmp_path)
    try:
        with pytest.raises(LockedError) as caught:
            NodeLock("key", "node", tmp_path).acquire("OTHER", Path("/sweeps/two"))
        assert caught.value.exit_code is Exit.LOCKED
        for part in (str(child.pid), "/sweeps/one", "since", "UTC"):
            assert part in caught.value.sentence
        NodeLock("other-node", "node", tmp_path).acquire("OTHER", Path("/sweeps/two")).release()
    finally:
        child.kill()
        child.wait()


def test_death_releases_the_lock_and_leaves_a_note(tmp_path: Path) -> None:
    child = held_by_a_child(tmp_path)
    assert holders(tmp_path)[0].alive
    child.kill()
    child.wait()
    assert not holders(tmp_path)[0].alive
    lock = NodeLock("key", "node", tmp_path).acquire("NEXT", tmp_path)
    assert lock.predecessor is not None
    assert lock.predecessor.sweep_id == "SWEEP"
    assert not lock.predecessor.alive
    lock.release()
    assert holders(tmp_path) == []


def test_an_orderly_release_leaves_nothing(tmp_path: Path) -> None:
    with NodeLock("key", "node", tmp_path).acquire("A", tmp_path) as lock:
        assert lock.predecessor is None
        assert holders(tmp_path)[0].pid == os.getpid()
    assert NodeLock("key", "node", tmp_path).acquire("B", tmp_path).predecessor is None


def test_an_abandoned_lock_can_be_taken_but_is_remembered(tmp_path: Path) -> None:
    lock = NodeLock("key", "node", tmp_path).acquire("A", tmp_path)
    lock.abandon()
    again = NodeLock("key", "node", tmp_path).acquire("B", tmp_path)
    assert again.predecessor is not None
    assert again.predecessor.sweep_id == "A"
    again.restore(again.predecessor)
    assert holders(tmp_path)[0].sweep_id == "A"


def test_the_key_depends_on_address_and_container() -> None:
    one = node_key({"address": "192.0.2.1", "vmid": "129"})
    assert one == node_key({"vmid": "129", "address": "192.0.2.1"})
    assert one != node_key({"address": "192.0.2.1", "vmid": "130"})


def test_an_unreadable_note_is_no_holder(tmp_path: Path) -> None:
    note = tmp_path / "x.json"
    for text in ("", "[]", '{"pid": 1}', "null"):
        note.write_text(text)
        assert read_holder(note) is None


def test_a_state_directory_that_cannot_be_made_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot lock"):
        NodeLock("key", "node", tmp_path / "file" / "locks").acquire("A", tmp_path)


def test_a_note_that_cannot_be_written_is_bad_input_and_frees_the_node(tmp_path: Path) -> None:
    (tmp_path / "key.json").mkdir()
    lock = NodeLock("key", "node", tmp_path)
    with pytest.raises(InputError, match="cannot lock the node"):
        lock.acquire("A", tmp_path)
    (tmp_path / "key.json").rmdir()
    NodeLock("key", "node", tmp_path).acquire("B", tmp_path).release()
    assert [path.name for path in tmp_path.iterdir()] == ["key.lock"]
