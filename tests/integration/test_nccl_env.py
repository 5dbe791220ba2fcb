"""The role nccl_env through ansible-playbook on this machine, with venvs of this Python and of the distribution's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
SYSTEM_PYTHON = Path("/usr/bin/python3")
PRINT_VARIABLES = "import json, os; print(json.dumps(dict(os.environ)))"


def shadowing_sitecustomize() -> bool:
    """Whether the distribution's Python comes with a sitecustomize of its own, as on Debian and Ubuntu."""
    if not SYSTEM_PYTHON.exists():
        return False
    command = [str(SYSTEM_PYTHON), "-c", "import importlib.util as u; print(bool(u.find_spec('sitecustomize')))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() == "True"


class Venv:
    """A venv and the role's play on it."""

    def __init__(self, folder: Path, interpreter: Path) -> None:
        subprocess.run([interpreter, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        self.python = folder / "venv" / "bin" / "python3"
        self.site_packages = next((folder / "venv").glob("lib/python*/site-packages"))
        self.playbook = folder / "play.yml"
        self.playbook.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "roles": ["nccl_env"]}]))

    def play(self, *options: str, **variables: Any) -> str:
        extra = {"sglang_server_python": str(self.python), "ansible_python_interpreter": sys.executable, **variables}
        command = [f"{sys.prefix}/bin/ansible-playbook", "-i", "localhost,", "-c", "local", str(self.playbook)]
        done = subprocess.run(
            [*command, "-e", json.dumps(extra), *options],
            cwd=REPOSITORY,
            env={**os.environ, "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return f"{done.stdout}{done.stderr}\nrc={done.returncode}"

    def variables(self) -> dict[str, str]:
        command = [str(self.python), "-c", PRINT_VARIABLES]
        found: dict[str, str] = json.loads(subprocess.run(command, env={}, capture_output=True, check=True).stdout)
        return found

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.site_packages.iterdir() if path.is_file()}


@pytest.fixture
def clean(tmp_path: Path) -> Venv:
    return Venv(tmp_path, Path(sys.executable))


GOLDEN = {
    "NCCL_PROTO": "LL",
    "NCCL_ALGO": "Ring",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_MAX_NCHANNELS": "16",
    "NCCL_BUFFSIZE": "16777216",
    "NCCL_NTHREADS": "512",
    "EAGLE3_PROFILE": "1",
}


def test_a_clean_venv(clean: Venv) -> None:
    before = clean.files()
    output = clean.play("--check", "--diff")
    assert "changed=1" in output
    assert "+_set_default('NCCL_PROTO', 'LL')" in output
    assert clean.files() == before

    assert "changed=1" in clean.play()
    assert set(clean.files()) == {*before, "sitecustomize.py"}
    assert clean.variables().items() >= GOLDEN.items()
    assert "changed=0" in clean.play()
    assert "changed=0" in clean.play("--check")

    assert "changed=1" in clean.play(nccl_env_state="absent")
    assert clean.files() == before
    assert "changed=0" in clean.play(nccl_env_state="absent")


def test_a_foreign_sitecustomize_stays(clean: Venv) -> None:
    (clean.site_packages / "sitecustomize.py").write_text("NAME = 'theirs'\n")
    before = clean.files()
    assert "changed=1" in clean.play()
    assert clean.files() == {**before, "zz_sglang_nccl_env.pth": clean.files()["zz_sglang_nccl_env.pth"]}
    assert clean.variables().items() >= GOLDEN.items()
    assert "changed=0" in clean.play()
    clean.play(nccl_env_state="absent")
    assert clean.files() == before


@pytest.mark.skipif(
    not shadowing_sitecustomize(), reason="this machine's system Python has no sitecustomize of its own"
)
def test_the_distributions_python(tmp_path: Path) -> None:
    system = Venv(tmp_path, SYSTEM_PYTHON)
    assert "changed=1" in system.play()
    assert "zz_sglang_nccl_env.pth" in system.files()
    assert system.variables().items() >= GOLDEN.items()
    assert "changed=0" in system.play()
    output = system.play(nccl_env_method="sitecustomize")
    assert "method sitecustomize cannot be used" in " ".join(output.split())


def test_a_value_that_does_not_arrive_fails_the_play(clean: Venv) -> None:
    (clean.site_packages / "aa.pth").write_text("import os; os.environ['NCCL_ALGO'] = 'Tree'\n")
    output = " ".join(clean.play().split())
    assert "rc=2" in output
    assert "NCCL_ALGO did not arrive in the parent: something else sets it to 'Tree'" in output
