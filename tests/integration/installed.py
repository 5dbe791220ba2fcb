"""The controller installed from a wheel into an environment of its own, outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ANSIBLE_COMMANDS = {"ansible-playbook": "playbook", "ansible-inventory": "inventory", "ansible": "adhoc"}
"""Commands and the modules below ``ansible.cli`` that they start."""


def build(kind: str, destination: Path, source: Path = REPOSITORY) -> Path:
    """Build a ``wheel`` or ``sdist`` with the installed hatchling; nothing is fetched."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(destination)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, text=True, timeout=60)
    (built,) = destination.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@dataclass(frozen=True)
class Installed:
    """A fresh virtual environment with the wheel in it. The dependencies are lent by the environment of the tests."""

    directory: Path
    home: Path

    @classmethod
    def create(cls, root: Path, wheel: Path) -> Installed:
        directory = root / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
        one = cls(directory, root / "home")
        one.home.mkdir()
        pip = [sys.executable, "-m", "pip", "--python", str(one.python), "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True, timeout=60)
        # The .pth files of a directory named in a .pth file are not read: the editable checkout is not lent along.
        (one.site_packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
        for name, module in ANSIBLE_COMMANDS.items():
            script = directory / "bin" / name
            script.write_text(f"#!{one.python}\nfrom ansible.cli.{module} import main\nmain()\n")
            script.chmod(0o755)
        return one

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return next(self.directory.glob("lib/python*/site-packages"))

    def run(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment in an empty home directory, as a user without a checkout does."""
        kept = ("LANG", "LC_ALL", "TZ")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment |= {"HOME": str(self.home), "PATH": f"{self.directory / 'bin'}:/usr/bin:/bin"}
        return subprocess.run(
            words, cwd=self.home, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
