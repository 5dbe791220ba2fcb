"""Recordings in the format asciicast v2 (docs.asciinema.org): one JSON document a line, played by asciinema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.recording.session import Session


def cast(session: Session, title: str) -> str:
    """Return the text of a ``.cast`` file."""
    header = {"version": 2, "width": session.width, "height": session.height, "title": title, "command": session.shown}
    lines = [json.dumps(header)]
    lines += [json.dumps([round(output.at, 3), "o", output.text]) for output in session.outputs]
    return "\n".join(lines) + "\n"
