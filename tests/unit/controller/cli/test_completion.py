"""The completion scripts, and what bash makes of its one with the installed program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controller import cli
from controller.cli.completion import SHELLS
from controller.exits import Exit

PROGRAM = Path(sys.executable).parent / "controller"


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == Exit.OK
    script = capsys.readouterr().out
    assert f"_CONTROLLER_COMPLETE={shell}_complete" in script
    assert "_controller_completion" in script


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "tcsh"]) == Exit.USAGE
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
@pytest.mark.skipif(not PROGRAM.exists(), reason="the package is not installed beside this Python")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("controller sw", "sweep"),
        ("controller sweep --ar", "--arm --arms-file"),
        ("controller completion z", "zsh"),
        ("controller plan --arms-file draft", "draft-window"),
    ],
)
def test_bash_completes(words: str, expected: str) -> None:
    count = len(words.split()) - 1
    script = (
        'eval "$(controller completion bash)"; '
        f"COMP_WORDS=({words}); COMP_CWORD={count}; _controller_completion controller; "
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env=os.environ | {"PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.strip() == expected, done.stderr
