"""Wheels of SGLang: fetched by name into a cache outside the repository, read as zip files, never installed."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sglang-eagle3-ops" / "wheels"
PYTHON_VERSION = "3.11"
FETCH_TIMEOUT_S = 600
VERSIONS = (
    *("0.5.6", "0.5.6.post1", "0.5.6.post2", "0.5.7", "0.5.8", "0.5.8.post1", "0.5.9", "0.5.10", "0.5.10.post1"),
    *("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1", "0.5.16"),
    *("0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"),
)
"""The releases that are checked; a new one is added here."""


class FetchError(Exception):
    """A wheel cannot be had; the message is pip's."""


class Wheel:
    """The sources inside one wheel."""

    def __init__(self, version: str, path: Path) -> None:
        self.version = version
        self._zip = zipfile.ZipFile(path)

    def names(self, prefix: str) -> Iterator[str]:
        """Python files below a path such as ``sglang/srt/models/``, or that file itself."""
        return (name for name in self._zip.namelist() if name.startswith(prefix) and name.endswith(".py"))

    def read(self, name: str) -> str:
        """The text of one file."""
        return self._zip.read(name).decode("utf-8-sig", errors="replace")

    @functools.cached_property
    def server_sources(self) -> str:
        """All of ``sglang/srt`` without its kernels and tests, one file after the other."""
        return "\n".join(self.read(name) for name in self.names("sglang/srt/") if "/test" not in name)

    @functools.cached_property
    def requirements(self) -> dict[str, str]:
        """Pinned packages: name as written -> version. Requirements of extras are left out."""
        name = next(name for name in self._zip.namelist() if name.endswith(".dist-info/METADATA"))
        pins = {}
        for line in message_from_string(self.read(name)).get_all("Requires-Dist") or []:
            match = re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*\(?==\s*([\w.+-]+)\)?\s*(;.*)?$", line)
            if match and "extra ==" not in (match[3] or ""):
                pins[match[1].lower().replace("_", "-")] = match[2]
        return pins


def open_wheel(version: str, *, offline: bool = False) -> Wheel:
    """Open the wheel of a version, fetching it first when the cache lacks it.

    Raises:
        FetchError: it is not in the cache and cannot be fetched.
    """
    found = _cached(version)
    if found is None:
        if offline:
            raise FetchError(f"sglang {version} is not in {CACHE}.")
        _fetch(version)
        found = _cached(version)
    if found is None:
        raise FetchError(f"pip fetched no wheel of sglang {version}.")
    return Wheel(version, found)


def _cached(version: str) -> Path | None:
    return next(iter(sorted(CACHE.glob(f"sglang-{version}-*.whl"))), None)


def _fetch(version: str) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"sglang=={version}"]
    command += ["--only-binary=:all:", "--python-version", PYTHON_VERSION, "--dest", str(CACHE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise FetchError(f"sglang {version}: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}")
