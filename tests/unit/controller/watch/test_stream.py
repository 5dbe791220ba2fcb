"""The connection to the target: real processes of the agent, started as they are over a local connection."""

from __future__ import annotations

import io
import json
import queue
import shlex
import sys
import time
from typing import TYPE_CHECKING

import pytest

from controller.watch.ask import read_access
from controller.watch.events import Access, Event, Gpu, GpusSeen, LogGrew, TargetNote
from controller.watch.stream import TargetStream, command, parse_gpus, read_events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SAMPLE = "0, 85514, 97887, 87.40, 46\n1, 85514, 97887, [N/A], 47\n"


def nvidia_smi(folder: Path, text: str = SAMPLE, code: int = 0) -> Path:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '%s' {shlex.quote(text)}\nexit {code}\n")
    program.chmod(0o755)
    return program


def access(log: Path, smi: Path | str) -> Access:
    return Access(url="", log_file=str(log), nvidia_smi=str(smi), connection="local", python=sys.executable)


class Heard:
    """Collects events until one fits."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.seen: list[Event] = []

    def wait(self, fits: Callable[[Event], bool], timeout_s: float = 15.0) -> Event:
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                event = self.events.get(timeout=left)
            except queue.Empty:
                break
            self.seen.append(event)
            if fits(event):
                return event
        raise AssertionError(f"not heard; heard were {self.seen}")


def test_one_look(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("a line\n")
    heard = Heard()
    stream = TargetStream(access(log, nvidia_smi(tmp_path)), 15.0, heard.events.put, mode="once")
    stream.start()
    stream.join(15)
    assert not stream.is_alive()
    assert heard.wait(lambda event: isinstance(event, LogGrew)) == LogGrew("a line\n", fresh=True)
    gpus = heard.wait(lambda event: isinstance(event, GpusSeen))
    assert gpus == GpusSeen((Gpu(0, 85514.0, 97887.0, 87.4, 46.0), Gpu(1, 85514.0, 97887.0, None, 47.0)))


def test_a_log_is_followed_through_growth_and_rotation_and_the_agent_ends_with_the_connection(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    heard = Heard()
    stream = TargetStream(access(log, ""), 15.0, heard.events.put)
    stream.start()
    try:
        missing = heard.wait(lambda event: isinstance(event, TargetNote) and bool(event.sentence))
        assert isinstance(missing, TargetNote)
        assert "No such file" in missing.sentence
        log.write_text("first\n")
        heard.wait(lambda event: event == LogGrew("first\n", fresh=True))
        with log.open("a") as file:
            file.write("second\n")
        heard.wait(lambda event: event == LogGrew("second\n", fresh=False))
        log.rename(tmp_path / "server.log.1")
        log.write_text("of another launch\n")
        heard.wait(lambda event: event == LogGrew("of another launch\n", fresh=True))
        child = stream._child
        assert child is not None
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(10) == 0
    finally:
        stream.stop()
        stream.join(10)
    assert not stream.is_alive()


def test_a_driver_that_fails_is_a_sentence(tmp_path: Path) -> None:
    heard = Heard()
    smi = nvidia_smi(tmp_path, "NVIDIA-SMI has failed", 9)
    stream = TargetStream(access(tmp_path / "log", smi), 15.0, heard.events.put, mode="once")
    stream.start()
    note = heard.wait(lambda event: isinstance(event, TargetNote) and event.about == "gpu")
    assert note == TargetNote("gpu", "the GPUs are not known: NVIDIA-SMI has failed")
    stream.join(10)


def test_a_target_that_cannot_be_reached_is_a_sentence(tmp_path: Path) -> None:
    heard = Heard()
    no_python = Access(url="", log_file="x", connection="local", python=str(tmp_path / "python3"))
    stream = TargetStream(no_python, 15.0, heard.events.put, mode="once")
    stream.start()
    note = heard.wait(lambda event: isinstance(event, TargetNote))
    assert isinstance(note, TargetNote)
    assert "cannot be started" in note.sentence
    stream.join(10)


def test_ssh_gets_what_the_inventory_says() -> None:
    words = command(
        Access(
            url="",
            log_file="/a b.log",
            nvidia_smi="nvidia-smi",
            address="192.0.2.1",
            user="root",
            port="2222",
            key_file="/k",
            arguments=("-o", "ProxyJump=gate"),
            become=True,
        ),
        15.0,
        "follow",
    )
    assert words[0] == "ssh"
    assert "BatchMode=yes" in words
    place = words.index("192.0.2.1")
    assert words[place - 8 : place] == ["-l", "root", "-p", "2222", "-i", "/k", "-o", "ProxyJump=gate"]
    remote = shlex.split(words[place + 1])
    assert remote[:5] == ["sudo", "-n", "--", "python3", "-I"]
    assert remote[-4:] == ["/a b.log", "nvidia-smi", "15", "follow"]


def test_another_connection_is_a_sentence() -> None:
    heard: list[Event] = []
    stream = TargetStream(Access(url="", log_file="x", connection="winrm"), 15.0, heard.append)
    stream.run()
    assert heard == [
        TargetNote(
            "connection", "log and GPUs are not followed over Ansible's connection 'winrm', only over ssh and local"
        )
    ]


def test_lines_that_the_agent_did_not_say_are_left_out() -> None:
    lines = [b"Welcome to Debian\n", b"[1]\n", json.dumps({"gpu": "nonsense"}).encode() + b"\n"]
    assert list(read_events(io.BytesIO(b"".join(lines)))) == [TargetNote("gpu", "nvidia-smi said 'nonsense'")]
    assert parse_gpus("x, 1\n") == ()


@pytest.mark.parametrize(
    ("said", "python", "connection"),
    [
        ({"python": "auto_silent", "connection": "smart"}, "python3", "ssh"),
        ({"python": "/usr/bin/python3", "connection": "ansible.builtin.ssh"}, "/usr/bin/python3", "ssh"),
        ({}, "python3", "ssh"),
    ],
)
def test_what_ansible_leaves_open(said: dict[str, str], python: str, connection: str) -> None:
    found = read_access(said | {"ssh_arguments": "-o 'ProxyCommand=x y' "})
    assert (found.python, found.connection) == (python, connection)
    assert found.arguments == ("-o", "ProxyCommand=x y")
