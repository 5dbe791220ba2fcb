"""A recording as one SVG without scripts: an animation, and its last picture for whoever asked for less motion."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from tools.recording.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.recording.screen import Lines, Style
    from tools.recording.session import Session

CHARACTER_WIDTH = 7.8
LINE_HEIGHT = 17
MARGIN = 14
TITLE_HEIGHT = 26
LAST_S = 6.0
"""How long the last picture stays before the animation begins again."""
SHORTEST_S = 0.7
"""Pictures that follow sooner are left out; a live display changes several times a second."""
INKS = {
    "black": "#7b8794", "red": "#ff7b72", "green": "#7ee787", "yellow": "#e3b341",
    "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#76e3ea", "white": "#f0f6fc",
}  # fmt: skip

STYLE = (
    "text{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}"
    ".b{font-weight:bold}.d{opacity:.65}.i{font-style:italic}"
)


def picture(session: Session, title: str) -> str:
    """Return the SVG of a session."""
    frames = _frames(session)
    length = frames[-1][0] + LAST_S
    width = round(session.width * CHARACTER_WIDTH + 2 * MARGIN)
    height = round(session.height * LINE_HEIGHT + 2 * MARGIN + TITLE_HEIGHT)
    styles = [STYLE, f".f{{visibility:hidden;animation:{length:.1f}s step-end infinite}}"]
    styles += [f".{name}{{fill:{ink}}}" for name, ink in INKS.items()]
    groups = []
    for number, (at, lines) in enumerate(frames):
        end = frames[number + 1][0] if number + 1 < len(frames) else length
        styles.append(f"#f{number}{{animation-name:k{number}}}{_keyframes(number, at, end, length)}")
        groups.append(f'<g class="f" id="f{number}">{_text(lines)}</g>')
    styles.append(f"@media(prefers-reduced-motion){{.f{{animation:none}}#f{len(frames) - 1}{{visibility:visible}}}}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}"><title>{escape(title)}</title><style>{"".join(styles)}</style>'
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>'
        f'<text x="{MARGIN}" y="{MARGIN + 8}" class="d">{escape(title)}</text>{"".join(groups)}</svg>\n'
    )


def _frames(session: Session) -> list[tuple[float, Lines]]:
    """Return time and picture of every change that can be seen, and of the end."""
    screen = Screen(session.width, session.height)
    screen.feed(f"\x1b[1m$ {session.shown}\x1b[0m\r\n")
    frames = [(0.0, screen.view())]
    for output in session.outputs:
        screen.feed(output.text)
        if output.at - frames[-1][0] >= SHORTEST_S and screen.view() != frames[-1][1]:
            frames.append((output.at, screen.view()))
    if screen.view() != frames[-1][1]:
        frames.append((max(session.outputs[-1].at, frames[-1][0] + SHORTEST_S), screen.view()))
    return frames


def _keyframes(number: int, at: float, end: float, length: float) -> str:
    begin, until = 100 * at / length, 100 * end / length
    before = "" if number == 0 else "0%{visibility:hidden}"
    after = "" if until >= 100 else f"{until:.2f}%{{visibility:hidden}}"
    return f"@keyframes k{number}{{{before}{begin:.2f}%{{visibility:visible}}{after}}}"


def _text(lines: Lines) -> str:
    top = MARGIN + TITLE_HEIGHT
    return "".join(
        f'<text x="{MARGIN}" y="{top + (number + 1) * LINE_HEIGHT - 4}">{_spans(line)}</text>'
        for number, line in enumerate(lines)
        if line
    )


def _spans(line: Sequence[tuple[str, Style]]) -> str:
    """Return a line with one element for each run of characters that look the same."""
    spans: list[tuple[Style, str]] = []
    for character, style in line:
        if spans and spans[-1][0] == style:
            spans[-1] = (style, spans[-1][1] + character)
        else:
            spans.append((style, character))
    shown = []
    for style, text in spans:
        names = [style.colour, "b" if style.bold else "", "d" if style.dim else "", "i" if style.italic else ""]
        classes = " ".join(name for name in names if name)
        shown.append(f'<tspan class="{classes}">{escape(text)}</tspan>' if classes else escape(text))
    return "".join(shown).rstrip()
