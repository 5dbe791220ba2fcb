"""As much of a terminal as Rich and Ansible use: lines, carriage returns, moving up, erasing, colours."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_SEQUENCE = re.compile(r"\x1b\[(?P<arguments>[0-9;?]*)(?P<final>[A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


@dataclass(frozen=True, slots=True)
class Style:
    """How a character looks."""

    colour: str = ""
    bold: bool = False
    dim: bool = False
    italic: bool = False


Cell = tuple[str, Style]
Lines = tuple[tuple[Cell, ...], ...]


class Screen:
    """A terminal that never forgets a line; what is in view are the last ``height`` ones."""

    def __init__(self, width: int, height: int) -> None:
        self._width = width
        self._height = height
        self._lines: list[list[Cell]] = [[]]
        self._row = self._column = 0
        self._style = Style()

    def feed(self, text: str) -> None:
        """Print text with its control sequences."""
        position = 0
        for found in _SEQUENCE.finditer(text):
            self._print(text[position : found.start()])
            if found["final"]:
                self._control(found["final"], found["arguments"])
            position = found.end()
        self._print(text[position:])

    def view(self) -> Lines:
        """Return what is in view."""
        return tuple(tuple(line) for line in self._lines[-self._height :])

    def _print(self, text: str) -> None:
        for character in text:
            if character == "\n":
                self._row += 1
                while len(self._lines) <= self._row:
                    self._lines.append([])
            elif character == "\r":
                self._column = 0
            elif character == "\t":
                self._column += 8 - self._column % 8
            elif character >= " ":
                self._put(character)

    def _put(self, character: str) -> None:
        if self._column >= self._width:
            self._column = 0
            self._print("\n")
        line = self._lines[self._row]
        line += [(" ", Style())] * (self._column + 1 - len(line))
        line[self._column] = (character, self._style)
        self._column += 1

    def _control(self, final: str, arguments: str) -> None:
        numbers = [int(part) for part in arguments.split(";") if part.isdigit()]
        count = numbers[0] if numbers else 1
        if final == "m":
            self._look(numbers or [0])
        elif final == "A":
            self._row = max(len(self._lines) - self._height, self._row - count, 0)
        elif final == "G":
            self._column = count - 1
        elif final == "K":
            line = self._lines[self._row]
            if numbers[:1] == [2]:
                line.clear()
            else:
                del line[self._column :]
        elif final == "J":
            del self._lines[self._row + 1 :]
            del self._lines[self._row][self._column :]

    def _look(self, numbers: list[int]) -> None:
        rest = list(numbers)
        while rest:
            number = rest.pop(0)
            if number == 0:
                self._style = Style()
            elif number == 1:
                self._style = replace(self._style, bold=True)
            elif number == 2:
                self._style = replace(self._style, dim=True)
            elif number == 3:
                self._style = replace(self._style, italic=True)
            elif number == 22:
                self._style = replace(self._style, bold=False, dim=False)
            elif number == 23:
                self._style = replace(self._style, italic=False)
            elif 30 <= number <= 37 or 90 <= number <= 97:
                self._style = replace(self._style, colour=_COLOURS[number % 10])
            elif number in (38, 48):
                del rest[: 2 if rest[:1] == [5] else 4]
            elif number == 39:
                self._style = replace(self._style, colour="")
