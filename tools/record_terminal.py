"""Record the README's sweep in a terminal: docs/assets/sweep.svg (animated) and docs/assets/sweep.cast (asciinema).

    python -m tools.record_terminal [DIRECTORY]

The command is run as it is, on a simulated node in a temporary directory, and played faster. The sweep itself is kept
in DIRECTORY when one is given, for tools.take_screenshots.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tools.recording.cast import cast
from tools.recording.picture import picture
from tools.recording.session import faster, record

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "docs" / "assets"
SHOWN = "controller sweep --steps 2,3"
TITLE = f"{SHOWN}: a simulated node, every figure is simulated; played {{factor:.0f}} times faster"
SIZE = (100, 32)
PLAYED_S = 40.0
STEP_S = 0.4
"""Shortest time between two changes of the picture."""


def main(arguments: list[str]) -> int:
    """Record, write both files, and say where they are."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        environment = {name: os.environ[name] for name in ("HOME", "LANG", "LC_ALL") if name in os.environ}
        environment |= {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "TERM": "xterm-256color",
            "CONTROLLER_SIMULATOR_NODE": str(home / "node"),
            "XDG_STATE_HOME": str(home / "state"),
            "PYTHONPATH": str(ROOT),
        }
        session = record(SHOWN.split(), SHOWN, size=SIZE, directory=home, environment=environment)
        if session.status != 0:
            print(f"the sweep ended with exit status {session.status}; nothing was written", file=sys.stderr)
            return 1
        if arguments:
            (swept,) = (home / "sweeps").iterdir()
            shutil.copytree(swept, arguments[0], dirs_exist_ok=True)
    factor = max(1.0, round(session.outputs[-1].at / PLAYED_S))
    session = replace(session, outputs=faster(session.outputs, factor, STEP_S))
    title = TITLE.format(factor=factor)
    ASSETS.mkdir(exist_ok=True)
    for name, text in (("sweep.svg", picture(session, title)), ("sweep.cast", cast(session, title))):
        (ASSETS / name).write_text(text, encoding="utf-8")
        print(f"{(ASSETS / name).relative_to(ROOT)}: {len(text.encode()) // 1024} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
