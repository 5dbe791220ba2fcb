from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.python_site import (
    InterpreterError,
    ask,
    inspect_site,
    installed_version,
)


def test_this_interpreter() -> None:
    site = inspect_site(sys.executable)
    assert site.site_packages == Path(sysconfig.get_path("purelib"))
    assert site.reads_site_packages
    assert not site.no_site


def test_versions_of_distributions() -> None:
    assert installed_version(sys.executable, "pytest") == pytest.__version__
    assert installed_version(sys.executable, "no-such-distribution-here") is None


def test_a_module_without_a_spec_is_no_sitecustomize(tmp_path: Path) -> None:
    wrapper = tmp_path / "python3"
    code = "import sys, types; sys.modules['sitecustomize'] = types.ModuleType('sitecustomize'); exec(sys.argv[1])"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$2"\n')
    wrapper.chmod(0o755)
    assert inspect_site(str(wrapper)).sitecustomize is None


@pytest.mark.parametrize(
    ("source", "sentence"),
    [("raise SystemExit('broken')", "failed with status 1: broken"), ("pass", "failed with status 0: no message")],
)
def test_an_interpreter_that_fails(source: str, sentence: str) -> None:
    with pytest.raises(InterpreterError, match=sentence):
        ask(sys.executable, source)


def test_an_interpreter_that_is_missing_or_slow() -> None:
    with pytest.raises(InterpreterError, match="cannot run /no/python"):
        ask("/no/python", "")
    with pytest.raises(InterpreterError, match=r"within 0\.1 s"):
        ask(sys.executable, "import time; time.sleep(9)", timeout_s=0.1)
