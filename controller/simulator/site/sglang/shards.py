"""The weight files of a model folder and the progress bar shown while they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def weight_files(model_path: str) -> list[str]:
    """Return the names of a model's safetensors files.

    Raises:
        RuntimeError: there are none, or the index names one that is missing. (SGLang checks the latter since 0.5.17
        only and reads
            garbage before that; a simulated server that would serve garbage helps nobody.)
    """
    folder = Path(model_path)
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        names = sorted(path.name for path in folder.glob("*.safetensors"))
        if not names:
            raise RuntimeError(f"Cannot find any model weights with `{model_path}`")
        return names
    names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise RuntimeError(
            f"{index} references {len(missing)} shard file(s) missing from {folder} (incomplete download?): {missing}"
        )
    return names


def progress_lines(files: int, seconds: float) -> Iterator[tuple[int, str]]:
    """Yield (files read, text) as tqdm writes it to a log: each state overwrites the last by a carriage return."""
    for done in range(files + 1):
        spent = seconds * done / files
        rate = "?it/s" if not done or not seconds else f"{files / seconds:5.2f}it/s"
        left = "?" if not done else _clock(seconds - spent)
        end = "\n" if done == files else ""
        state = f"{100 * done // files:3d}% Completed | {done}/{files} [{_clock(spent)}<{left}, {rate}]"
        yield done, f"\rMulti-thread loading shards: {state}{end}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02d}:{rest:02d}"
