"""Fetches the established client: ``sglang.bench_serving`` of the last release that runs without torch.

It goes into a folder of its own (``~/.cache/sglang-eagle3-ops/peer``), never into ``.venv``, and is started as its
users start it. Of its imports ``datasets`` alone is left out: it is 250 MB, and only public data sets need it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

RELEASE = "0.5.9"  # from 0.5.10 on bench_serving imports torch
MODULE = "sglang/bench_serving.py"
NEEDED = (
    "aiohttp==3.14.5",
    "numpy==2.4.6",
    "packaging==26.4",
    "pillow==13.0.0",
    "pybase64==1.5.1",
    "requests==2.34.2",
    "tqdm==4.70.1",
    "transformers==4.57.1",
)
WITHOUT_DATASETS = '''"""Stands in for the package of this name: prompts come from a file here."""


def load_dataset(*_, **__):
    raise RuntimeError("no public data sets here")
'''
TOKENIZER: dict[str, object] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
}


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """A client to compare with.

    Attributes:
        name: What to call it in a table.
        command: The words that start it, to which its options are added.
        tokenizer: Folder of a tokenizer that it can read.
        environment: Variables added to ours.
    """

    name: str
    command: tuple[str, ...]
    tokenizer: str
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


class PeerError(RuntimeError):
    """The client cannot be had or failed. The message says why."""


def cache_folder() -> Path:
    """Return where the client is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "sglang-eagle3-ops", "peer", f"sglang-{RELEASE}")


def fetched_peer(folder: Path | None = None) -> Peer:
    """Return the client, fetched from PyPI unless it is in the cache.

    Raises:
        PeerError: pip cannot get it.
    """
    folder = folder or cache_folder()
    program = folder / "bench_serving.py"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _pip("install", "--no-compile", "--upgrade", "--target", str(folder / "packages"), *NEEDED)
        _pip("download", "--no-deps", "--dest", str(folder), f"sglang=={RELEASE}")
        (folder / "packages" / "datasets.py").write_text(WITHOUT_DATASETS)
        make_tokenizer(folder / "tokenizer")
        wheel = next(folder.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(MODULE)
        wheel.unlink()
        program.write_bytes(content)  # last: what marks the folder as complete
    return Peer(
        name=f"sglang.bench_serving {RELEASE}",
        command=(sys.executable, str(program)),
        tokenizer=str(folder / "tokenizer"),
        environment={"PYTHONPATH": str(folder / "packages")},
    )


def installed_peer(python: str, tokenizer: str, folder: Path) -> Peer:
    """Return the client of an interpreter that has SGLang.

    Args:
        python: The interpreter.
        tokenizer: Folder of the served model.
        folder: Where a stand-in for ``datasets`` goes when the interpreter has no usable one.

    Raises:
        PeerError: the interpreter has no SGLang.
    """
    code = "import importlib.metadata as m; print(m.version('sglang'))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if found.returncode:
        last = found.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        message = f"{python} has no sglang ({last[0]}); name the serving interpreter."
        raise PeerError(message)
    environment = {}
    if subprocess.run([python, "-c", "import datasets"], capture_output=True, check=False).returncode:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "datasets.py").write_text(WITHOUT_DATASETS)
        environment["PYTHONPATH"] = str(folder)
    command = (python, "-m", "sglang.bench_serving")
    return Peer(f"sglang.bench_serving {found.stdout.strip()}", command, tokenizer, environment)


def make_tokenizer(folder: Path) -> None:
    """Write the smallest tokenizer that transformers loads: one token a word."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"})
    )
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        last = found.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        message = f"sglang.bench_serving {RELEASE} cannot be fetched (pip: {last[0]}); it needs PyPI once."
        raise PeerError(message)
