"""Small programs that stand in for real ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def program(path: Path, body: str, interpreter: str = "/bin/sh") -> str:
    """Write an executable script; return its path as text."""
    path.write_text(f"#!{interpreter}\n{body}\n")
    path.chmod(0o755)
    return str(path)


def python_program(path: Path, source: str) -> str:
    """Write an executable script for the Python of the tests; return its path as text."""
    return program(path, source, sys.executable)
