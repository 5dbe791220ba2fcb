"""Recordings: a command in a terminal of its own, what a terminal would show, and the two files made of it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tools.recording.cast import cast
from tools.recording.picture import picture
from tools.recording.screen import Screen, Style
from tools.recording.session import Output, Session, faster, record

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"


def shown(text: str, width: int = 20, height: int = 5) -> list[str]:
    screen = Screen(width, height)
    screen.feed(text)
    return ["".join(character for character, _ in line) for line in screen.view()]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\r\nb", ["a", "b"]),
        ("live 1\r\x1b[2Klive 2", ["live 2"]),
        ("one\r\ntwo\r\n\x1b[1A\x1b[2KTWO\r\n", ["one", "TWO", ""]),
        ("abc\x1b[2Gx\x1b[K", ["ax"]),
        ("a\r\nb\r\nc\x1b[2A\r\x1b[J", [""]),
        ("\ta\x1b]0;title\x07\x1b[?25l", ["        a"]),
        ("x" * 25, ["x" * 20, "x" * 5]),
        ("\r\n".join("abcdefg"), list("cdefg")),
    ],
)
def test_a_screen_shows_what_a_terminal_shows(text: str, lines: list[str]) -> None:
    assert shown(text) == lines


def test_colours_and_weights() -> None:
    screen = Screen(20, 2)
    screen.feed("\x1b[1;31mA\x1b[22;2mB\x1b[39mC\x1b[0;3;92mD\x1b[23;38;5;200mE\x1b[mF")
    (line,) = screen.view()
    assert [style for _, style in line] == [
        Style("red", bold=True),
        Style("red", dim=True),
        Style("", dim=True),
        Style("green", italic=True),
        Style("green"),
        Style(),
    ]


def test_a_command_is_recorded_in_a_terminal(tmp_path: Path) -> None:
    program = "import os, sys; print(os.get_terminal_size().columns, sys.stdout.isatty(), os.getcwd()); sys.exit(3)"
    session = record(
        [sys.executable, "-c", program], "program", size=(77, 9), directory=tmp_path, environment={"PATH": "/usr/bin"}
    )
    assert "".join(output.text for output in session.outputs).split() == ["77", "True", str(tmp_path)]
    assert session.status == 3


def test_playing_faster_joins_what_comes_too_often() -> None:
    outputs = [Output(0.0, "a"), Output(0.5, "b"), Output(2.0, "c"), Output(9.0, "d")]
    assert faster(outputs, 2.0, 0.5) == (Output(0.0, "ab"), Output(1.0, "c"), Output(4.5, "d"))


def test_the_files() -> None:
    session = Session("controller <x>", 30, 4, (Output(1.0, "one\r\n"), Output(3.0, "\x1b[32mtwo\x1b[0m & three")), 0)
    lines = [json.loads(line) for line in cast(session, "title").splitlines()]
    assert lines[0] == {"version": 2, "width": 30, "height": 4, "title": "title", "command": "controller <x>"}
    assert lines[1:] == [[1.0, "o", "one\r\n"], [3.0, "o", "\x1b[32mtwo\x1b[0m & three"]]

    drawn = ET.fromstring(picture(session, "title"))  # noqa: S314 - our own text
    frames = drawn.findall(f"{SVG}g")
    assert ["".join(frame.itertext()) for frame in frames] == [
        "$ controller <x>",
        "$ controller <x>one",
        "$ controller <x>onetwo & three",
    ]
    assert drawn.findall(f".//{SVG}script") == []
    style = drawn.find(f"{SVG}style")
    assert style is not None
    assert "prefers-reduced-motion" in (style.text or "")
