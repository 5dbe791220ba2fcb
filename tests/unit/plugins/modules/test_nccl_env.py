from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.modules import nccl_env as module

if TYPE_CHECKING:
    from collections.abc import Callable

Result = dict[str, Any]
VARIABLES = {"NCCL_PROTO": "LL", "NCCL_BUFFSIZE": 16777216}


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    return next((tmp_path / "venv").glob("lib/python*/site-packages"))


@pytest.fixture
def call(site_packages: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the module on a fresh venv."""

    def run(**options: Any) -> Result:
        arguments = {"python": str(site_packages.parents[2] / "bin" / "python3"), "variables": VARIABLES, **options}
        check = arguments.pop("check", False)
        with (
            patch_module_args({**arguments, "_ansible_check_mode": check, "_ansible_diff": True}),
            pytest.raises(SystemExit),
        ):
            module.main()
        result: Result = json.loads(capsys.readouterr().out)
        return result

    return run


@pytest.mark.parametrize("method", ["sitecustomize", "pth"])
def test_a_launch_may_leave_variables_out(site_packages: Path, call: Callable[..., Result], method: str) -> None:
    result = call(method=method, unset=["NCCL_PROTO"])
    assert result["left_out"] == ["NCCL_PROTO"]
    assert result["proof"]["NCCL_PROTO"]["arrived"]
    assert call(method=method)["left_out"] == []

    (site_packages / "zzz.pth").write_text("import os; os.environ['NCCL_PROTO'] = 'LL'\n")
    refused = call(method=method, unset=["NCCL_PROTO"])
    assert refused["failed"]
    assert "NCCL_PROTO is not left out in the parent" in refused["msg"]


def test_write_again_change_and_remove(site_packages: Path, call: Callable[..., Result]) -> None:
    own = site_packages / "sitecustomize.py"
    before = sorted(site_packages.rglob("*"))
    first = call()
    assert (first["changed"], first["method"], first["file"]) == (True, "sitecustomize", str(own))
    assert all(entry["arrived"] for entry in first["proof"].values())
    assert own.stat().st_mode & 0o777 == 0o644

    second = call()
    assert (second["changed"], second["diff"]) == (False, [])
    assert second["proof"] == first["proof"]

    changed = call(variables={"NCCL_PROTO": "SS", "NCCL_BUFFSIZE": 16777216})
    assert changed["proof"]["NCCL_PROTO"]["grandchild"] == {"os.environ": "SS", "getenv": "SS"}

    moved = call(method="pth")
    assert (moved["changed"], moved["method"]) == (True, "pth")
    assert not own.exists()

    assert call(state="absent")["changed"]
    assert not call(state="absent")["changed"]
    assert sorted(path for path in site_packages.rglob("*") if path.name != "__pycache__") == before


def test_a_launchers_own_value_wins(site_packages: Path, call: Callable[..., Result]) -> None:
    call()
    python = site_packages.parents[2] / "bin" / "python3"
    done = subprocess.run(
        [python, "-c", "import os; print(os.environ['NCCL_PROTO'])"],
        env={**os.environ, "NCCL_PROTO": "Simple"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "Simple\n"


def test_check_mode_writes_nothing_and_proves_nothing(site_packages: Path, call: Callable[..., Result]) -> None:
    result = call(check=True)
    assert result["changed"]
    assert "proof" not in result
    assert "NCCL_PROTO" in result["diff"][0]["after"]
    assert not (site_packages / "sitecustomize.py").exists()
    call()
    assert "proof" in call(check=True)
    assert "proof" not in call(prove=False)


def test_a_foreign_file_is_not_touched(site_packages: Path, call: Callable[..., Result]) -> None:
    own = site_packages / "sitecustomize.py"
    foreign = b"# -*- coding: latin-1 -*-\nNAME = '\xe9'\n"
    own.write_bytes(foreign)
    result = call()
    assert (result["method"], Path(result["file"]).name) == ("pth", "zz_sglang_nccl_env.pth")
    assert "belongs to somebody else" in result["reason"]
    assert "method sitecustomize cannot be used" in call(method="sitecustomize")["msg"]
    call(state="absent")
    assert own.read_bytes() == foreign


def test_an_earlier_sitecustomize_on_the_path(tmp_path: Path, site_packages: Path, call: Callable[..., Result]) -> None:
    distribution = tmp_path / "distribution"
    distribution.mkdir()
    (distribution / "sitecustomize.py").touch()
    (site_packages / "aa.pth").write_text(f"import sys; sys.path.insert(0, {str(distribution)!r})\n")
    result = call()
    assert result["method"] == "pth"
    assert "before it" in result["reason"]


def test_an_interpreter_without_site(tmp_path: Path, site_packages: Path, call: Callable[..., Result]) -> None:
    wrapper = tmp_path / "python3"
    wrapper.write_text(f'#!/bin/sh\nexec {site_packages.parents[2]}/bin/python3 -S "$@"\n')
    wrapper.chmod(0o755)
    assert "is started with -S" in call(python=str(wrapper))["msg"]


def test_site_packages_off_the_path(site_packages: Path, call: Callable[..., Result]) -> None:
    (site_packages / "aa.pth").write_text(f"import sys; sys.path.remove({str(site_packages)!r})\n")
    assert "is not on the path" in call()["msg"]


def test_something_else_sets_a_variable(site_packages: Path, call: Callable[..., Result]) -> None:
    (site_packages / "aa.pth").write_text("import os; os.environ['NCCL_PROTO'] = 'Simple'\n")
    result = call()
    assert "NCCL_PROTO did not arrive in the parent: something else sets it to 'Simple'" in result["msg"]
    assert result["proof"]["NCCL_BUFFSIZE"]["arrived"]


def test_leftovers_go(site_packages: Path, call: Callable[..., Result]) -> None:
    (site_packages / ".sitecustomize.py.sglang_ops-1-1.tmp").touch()
    call()
    assert not call(prove=False)["changed"]
    assert not list(site_packages.glob(".*"))


def test_refusals(tmp_path: Path, site_packages: Path, call: Callable[..., Result]) -> None:
    assert "python is empty" in call(python="")["msg"]
    assert "cannot run /no/python" in call(python="/no/python")["msg"]
    assert "is empty" in call(variables={})["msg"]
    (site_packages / "sitecustomize.py").mkdir()
    assert "cannot read" in call()["msg"]
    site_packages.rename(tmp_path / "elsewhere")
    assert "does not exist: the venv is damaged" in call()["msg"]


def test_documentation_agrees_with_the_arguments() -> None:
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    assert {
        name: {key: value for key, value in option.items() if key != "description"}
        for name, option in documented.items()
    } == module.ARGUMENTS
    assert yaml.safe_load(module.EXAMPLES)
    assert yaml.safe_load(module.RETURN)
