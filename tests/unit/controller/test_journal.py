from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.exits import Exit, InputError, JournalError
from controller.journal import Journal, read_journal

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, clock=lambda: 12.3456) as journal:
        assert journal.append("cell", cell="a", text="Größe\n") == {
            "kind": "cell",
            "at": 12.346,
            "cell": "a",
            "text": "Größe\n",
        }
        journal.append("end")
    content = read_journal(path)
    assert [record["kind"] for record in content.records] == ["cell", "end"]
    assert not content.torn
    assert content.whole_bytes == path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=60)
@given(cut=st.integers(0, 200))
def test_a_journal_cut_anywhere_loses_at_most_its_last_record(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    with Journal(path, clock=lambda: 1.0) as journal:
        for number in range(5):
            journal.append("run", number=number)
    data = path.read_bytes()
    path.write_bytes(data[: min(cut, len(data))])
    whole = data[:cut].count(b"\n")
    content = read_journal(path)
    assert len(content.records) == whole
    with Journal(path) as journal:
        journal.append("resumed")
    assert [record.get("number") for record in read_journal(path).records] == [*range(whole), None]


def test_a_damaged_line_in_the_middle_is_not_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"kind":"a"}\ngarbage\n{"kind":"b"}\n')
    with pytest.raises(JournalError, match="line 2"):
        read_journal(path)
    with pytest.raises(JournalError, match="line 2"):
        Journal(path)


def test_a_line_that_is_json_but_no_record_counts_as_torn_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"kind":"a"}\n12\n')
    content = read_journal(path)
    assert content.torn
    assert len(content.records) == 1


def test_no_journal_is_no_sweep_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a sweep directory"):
        read_journal(tmp_path / "journal.jsonl")


def test_a_journal_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot open") as caught:
        Journal(tmp_path / "missing" / "journal.jsonl")
    assert caught.value.exit_code is Exit.JOURNAL
    with pytest.raises(JournalError, match="cannot read"):
        read_journal(tmp_path)


def test_a_full_device_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.symlink_to("/dev/full")
    with Journal(path) as journal, pytest.raises(JournalError, match="No space left"):
        journal.append("sweep")


def fill(journal: Journal, written: list[int]) -> None:
    """Append until the disk is full, noting the records that were written."""
    for number in range(1000):
        journal.append("run", number=number, filler="x" * 1500)
        written.append(number)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_disk_that_fills_up_keeps_every_earlier_record(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], check=True)
    try:
        written: list[int] = []
        with Journal(mount / "journal.jsonl") as journal, pytest.raises(JournalError, match="No space left"):
            fill(journal, written)
        content = read_journal(mount / "journal.jsonl")
        assert not content.torn
        assert [record["number"] for record in content.records] == written
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_failing_disk_is_reported_and_the_line_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append("sweep")

        def fail(*_: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(JournalError, match="Input/output error"):
            journal.append("cell")
        monkeypatch.setattr(os, "ftruncate", fail)
        with pytest.raises(JournalError, match="Input/output error"):
            journal.append("cell")
    assert read_journal(path).records[0]["kind"] == "sweep"


def test_each_record_is_on_disk_before_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Any] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append("a")
        journal.append("b")
    assert len(synced) == 2


def test_a_kill_in_the_middle_of_writing_leaves_a_readable_journal(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom controller.journal import Journal\nfrom pathlib import Path\n"
        "journal = Journal(Path(sys.argv[1]))\nprint(flush=True)\n"
        "number = 0\nwhile True:\n    journal.append('run', number=number, filler='x' * 3000)\n    number += 1\n"
    )
    path = tmp_path / "journal.jsonl"
    child = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.kill()
    child.wait()
    child.stdout.close()
    numbers = [record["number"] for record in read_journal(path).records]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize(("module", "call"), [("fcntl", "flock"), ("os", "ftruncate")])
def test_a_file_system_that_cannot_lock_or_cut_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, call: str
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"kind":"torn')

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(f"{module}.{call}", refused)
    with pytest.raises(JournalError, match=f"{path}.*: No locks available"):
        Journal(path)


def test_a_line_nested_too_deeply_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("[" * 200_000 + '\n{"kind": "finished"}\n{"kind": "finished"}\n')
    with pytest.raises(JournalError, match="line 1 of the journal"):
        read_journal(path)
