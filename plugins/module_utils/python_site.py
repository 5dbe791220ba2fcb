"""Ask a Python interpreter about itself: where it looks for packages, what runs at its start, which versions it has.

Asked, never guessed: the path of site-packages differs between venvs, Debian's Python and self-built ones.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional

_MARK = "SGLANG_OPS_ANSWER "
_PROBE_TIMEOUT_S = 60.0  # a first import from a cold network disk

# The entry for the current directory is removed: a file in there is not what the server would import.
_SITE_PROBE = f"""
import importlib.util, json, sys, sysconfig
sys.path[:] = [entry for entry in sys.path if entry]
try:
    spec = importlib.util.find_spec("sitecustomize")
except ValueError:
    spec = None
print("{_MARK}" + json.dumps({{
    "version": "%d.%d.%d" % sys.version_info[:3],
    "purelib": sysconfig.get_path("purelib"),
    "sitecustomize": spec.origin if spec else None,
    "path": sys.path,
    "no_site": bool(sys.flags.no_site),
}}))
"""
_VERSION_PROBE = f"""
import importlib.metadata, json, sys
try:
    version = importlib.metadata.version(sys.argv[1])
except importlib.metadata.PackageNotFoundError:
    version = None
print("{_MARK}" + json.dumps(version))
"""


class InterpreterError(Exception):
    """An interpreter does not run or does not answer; the message is one sentence with its path."""


@dataclass(frozen=True)
class PythonSite:
    """What an interpreter says about itself.

    Attributes:
        version: three numbers, such as 3.12.3.
        site_packages: its directory for pure Python packages.
        sitecustomize: the file that it imports as sitecustomize, None for none.
        reads_site_packages: whether that directory is on its path, so that .pth files in there run.
        no_site: whether it was started without its site module (-S).
    """

    version: str
    site_packages: Path
    sitecustomize: Optional[Path]
    reads_site_packages: bool
    no_site: bool


def inspect_site(python: str) -> PythonSite:
    """Ask an interpreter for its site directories.

    Raises:
        InterpreterError: it cannot be started, failed, or did not answer.
    """
    answer: Dict[str, Any] = ask(python, _SITE_PROBE)[-1]
    origin = answer["sitecustomize"]
    return PythonSite(
        version=str(answer["version"]),
        site_packages=Path(answer["purelib"]),
        sitecustomize=Path(origin) if origin else None,
        reads_site_packages=any(_same(answer["purelib"], entry) for entry in answer["path"]),
        no_site=bool(answer["no_site"]),
    )


def installed_version(python: str, distribution: str) -> Optional[str]:
    """The version of a distribution as that interpreter's importlib.metadata says; None when it is not installed.

    Raises:
        InterpreterError: the interpreter cannot be started, failed, or did not answer.
    """
    version: Optional[str] = ask(python, _VERSION_PROBE, arguments=[distribution])[-1]
    return version


def ask(
    python: str,
    source: str,
    *,
    arguments: Iterable[str] = (),
    without: Iterable[str] = (),
    more: Optional[Mapping[str, str]] = None,
    timeout_s: float = _PROBE_TIMEOUT_S,
) -> List[Any]:
    """Run Python source and return the JSON values of its answer lines, in order.

    It runs in / and without PYTHON* variables and those named in `without`, as a service manager would start it; those
    of `more` are set.

    Raises:
        InterpreterError: the interpreter cannot be started, failed, or did not answer within `timeout_s` seconds.
    """
    left_out = set(without)
    environment = {
        name: value for name, value in os.environ.items() if name not in left_out and not name.startswith("PYTHON")
    }
    environment.update(more or {})
    try:
        done = subprocess.run(
            [python, "-c", source, *arguments],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        raise InterpreterError(
            f"cannot run {python}: {error.strerror}; give the path of the serving venv's python3."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise InterpreterError(f"{python} did not answer within {timeout_s:g} s.") from error
    answers = [json.loads(line[len(_MARK) :]) for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not answers:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InterpreterError(f"{python} failed with status {done.returncode}: {last}.")
    return answers


def answer_mark() -> str:
    """What an answer line of a script given to `ask` begins with."""
    return _MARK


def _same(first: str, second: str) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)
