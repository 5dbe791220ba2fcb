"""What a server is made of, as names and short values that can be compared: packages, models, GPUs, driver.

Nothing is imported from the serving environment and no weights are read: versions are read from the names of the
installed distributions, weights are identified by the index and by name, size and modification time of their files.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_command import (
    CommandNotFoundError,
    CommandTimeoutError,
    run_bounded,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.safetensors_header import INDEX_NAME

PACKAGES = re.compile(r"(sglang|torch|transformers|flashinfer_python|sgl_kernel|nvidia_nccl_cu\d+)-(.+)\.dist-info")
WEIGHTS = ("*.safetensors", "*.bin")
SMI_QUERY = ("--query-gpu=uuid,driver_version,name", "--format=csv,noheader")
SMI_TIMEOUT_S = 30.0


def package_versions(interpreter: str) -> Dict[str, str]:
    """Return the versions of the packages that decide how fast SGLang is, in the environment of an interpreter."""
    found: Dict[str, str] = {}
    for folder in _site_packages(Path(interpreter)):
        for entry in folder.glob("*.dist-info"):
            match = PACKAGES.fullmatch(entry.name)
            if match:
                found[f"package {match[1].replace('_', '-')}"] = match[2]
    return found


def _site_packages(interpreter: Path) -> List[Path]:
    root = interpreter.parent.parent
    return sorted({*root.glob("lib/python3*/site-packages"), *root.glob("lib/python3*/dist-packages")})


def model_identity(path: str) -> Dict[str, str]:
    """Return hashes of a model on this machine; nothing for a name that is not a directory here."""
    folder = Path(path)
    if not path or not folder.is_dir():
        return {}
    found: Dict[str, str] = {}
    for name in ("config.json", INDEX_NAME):
        digest = _sha256(folder / name)
        if digest:
            found[f"{path}/{name}"] = digest
    lines, sizes = [], []
    for pattern in WEIGHTS:
        for file in sorted(folder.glob(pattern)):
            try:
                status = file.stat()
            except OSError:
                continue  # a broken link of a download that is not finished
            lines.append(f"{file.name} {status.st_size} {int(status.st_mtime)}")
            sizes.append(f"{file.name} {status.st_size}")
    if lines:
        found[f"{path} (weights)"] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        # The same download has other times on another machine; names and sizes compare across machines.
        found[f"{path} (weight sizes)"] = hashlib.sha256("\n".join(sizes).encode()).hexdigest()
    return found


def _sha256(path: Path) -> Optional[str]:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def gpu_identity(nvidia_smi: str) -> Dict[str, str]:
    """Return the GPUs by UUID and kind, and the driver's version; nothing when nvidia-smi is missing or fails."""
    try:
        answer = run_bounded([nvidia_smi, *SMI_QUERY], SMI_TIMEOUT_S)
    except (CommandNotFoundError, CommandTimeoutError):
        return {}
    rows = [[word.strip() for word in line.split(",")] for line in answer.stdout.splitlines() if line.strip()]
    if answer.returncode != 0 or not rows or any(len(row) != 3 for row in rows):
        return {}
    kinds = [row[2] for row in rows]
    return {
        "GPUs": " ".join(sorted(row[0] for row in rows)),
        "GPU kinds": ", ".join(f"{kinds.count(kind)} x {kind}" for kind in sorted(set(kinds))),
        "driver": rows[0][1],
    }


def node_identity(interpreter: str, models: Sequence[str], nvidia_smi: str) -> Dict[str, str]:
    """Return everything together.

    Args:
        interpreter: Python of the serving environment.
        models: Directories of target and draft.
        nvidia_smi: The program that knows the GPUs.
    """
    found = package_versions(interpreter)
    for path in models:
        found.update(model_identity(path))
    found.update(gpu_identity(nvidia_smi))
    return found
