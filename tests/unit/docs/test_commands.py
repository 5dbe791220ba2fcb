"""Every command shown in the documentation parses: controller commands by click, playbooks with --syntax-check.

A command is a line that starts with `$ ` in a fenced `console` block of README.md, docs/ or a role's README.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from controller.cli.app import cli as controller_command

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("roles/*/README.md"), *ROOT.glob("tests/*/README.md")]
)
CONSOLE_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """(page, command) for each command of the documentation, continuation lines joined."""
    found = []
    for page in PAGES:
        for block in CONSOLE_BLOCK.findall(page.read_text()):
            joined = block.replace("\\\n", " ")
            found += [
                (str(page.relative_to(ROOT)), line[2:].strip()) for line in joined.splitlines() if line.startswith("$ ")
            ]
    return found


def parse_controller(arguments: list[str]) -> None:
    """Walk the click tree and parse the arguments without running anything."""
    command: click.Command = controller_command
    context = click.Context(command, info_name="controller")
    rest = arguments
    while isinstance(command, click.Group):
        leading = [word for word in rest if not word.startswith("-")]
        if not leading:
            return
        name = leading[0]
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name!r}"
        command, rest = found, rest[rest.index(name) + 1 :]
    with command.make_context(command.name or "", list(rest), parent=context, resilient_parsing=False):
        pass


@functools.cache
def syntax_check(arguments: tuple[str, ...]) -> str:
    """Return what ansible-playbook has against its arguments; many pages show the same command."""
    playbook = Path(sys.executable).parent / "ansible-playbook"
    done = subprocess.run(
        [playbook, "--syntax-check", *arguments],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{playbook.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.parametrize(("page", "command"), commands(), ids=lambda value: str(value)[:60])
def test_command_parses(page: str, command: str) -> None:
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"[A-Z_][A-Z0-9_]*=.*", words[0]):
        words = words[1:]
    if words[:3] in (["python", "-m", "controller"], ["python3", "-m", "controller"]):
        parse_controller(words[3:])
    elif words[:2] == ["./run", "controller"]:
        parse_controller(words[2:])
    elif words[:1] == ["controller"]:
        parse_controller(words[1:])
    elif words[0] == "./run":
        usage = (ROOT / "run").read_text()
        assert f"./run {words[1]}" in usage, f"{page}: ./run knows no {words[1]!r}"
    elif words[0] == "ansible-playbook":
        output = syntax_check(tuple(words[1:]))
        assert not output, f"{page}: {command}\n{output}"
    elif words[0] == "ansible-doc":
        assert "sglang_ops.eagle3." in command
        module = words[-1].rpartition(".")[2]
        assert (ROOT / "plugins" / "modules" / f"{module}.py").exists()
    elif words[0].startswith("tests/"):
        assert os.access(ROOT / words[0], os.X_OK), f"{page}: {words[0]} is not there or not executable"
    elif words[0] in ("python", "python3"):
        program = Path(*words[2].split(".")).with_suffix(".py") if words[1] == "-m" else Path(words[1])
        assert (ROOT / program).is_file(), f"{page}: {program} is not there"
    else:
        assert words[:2] == ["ansible-galaxy", "collection"], f"{page}: nothing here checks {words[0]}"


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken
