"""Whether the packages of the serving environment fit each other, the driver and the GPU (pure).

Sources: `Requires-Dist` of the installed SGLang; NVIDIA CUDA Compatibility (minimum drivers: 525 for CUDA 12, 580 for
CUDA 13); CUDA 12.8 release notes (first toolkit for compute capability 12.0, with driver 570).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional, Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_check import (
    WARNING,
    Check,
    failed,
    passed,
    unknown,
    warned,
)

_PIN = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?\s*\(?==\s*([\w.+-]+)\)?\s*(?:;(.*))?$")
_KERNELS = ("sgl-kernel", "sglang-kernel")
_WATCHED = ("torch", *_KERNELS, "flashinfer-python", "transformers", "triton", "xgrammar")
_BLACKWELL: Tuple[int, int] = (12, 0)


@dataclass(frozen=True)
class Packages:
    """What the serving interpreter said.

    Attributes:
        sglang: SGLang's version, None when it is not installed.
        versions: installed distributions: normalised name -> version.
        requires: SGLang's requirement lines.
        torch_cuda: CUDA version that torch was built for, None for none.
        error: why nothing is known; then the rest is empty.
    """

    sglang: Optional[str] = None
    versions: Dict[str, str] = field(default_factory=dict)
    requires: List[str] = field(default_factory=list)
    torch_cuda: Optional[str] = None
    error: str = ""


def check_sglang(packages: Packages, python: str) -> Check:
    """Whether the interpreter has SGLang."""
    name = "sglang-installed"
    if packages.error:
        return failed(
            name, packages.error.rstrip("."), "set sglang_server_python to the python3 of the serving environment"
        )
    if packages.sglang is None:
        return failed(name, f"{python} has no sglang", "install it there, or set sglang_server_python")
    return passed(name, f"SGLang {packages.sglang}")


def check_pins(packages: Packages) -> Check:
    """Whether the packages that matter have the versions that this SGLang pins."""
    name = "package-versions"
    pins = dict(pinned(packages.requires))
    if packages.sglang is None or not pins:
        return unknown(name, "the installed SGLang names no versions", WARNING)
    wrong = []
    for package in _WATCHED:
        wanted, got = pins.get(package), packages.versions.get(package)
        if wanted is not None and (got is None or got.partition("+")[0] != wanted):
            wrong.append(f"{package} is {got or 'missing'}, SGLang {packages.sglang} pins {wanted}")
    if all(kernel in packages.versions for kernel in _KERNELS):
        wrong.append("sgl-kernel and sglang-kernel are both installed and overwrite each other's files")
    if wrong:
        return warned(name, "; ".join(wrong), f"install the pinned set again: pip install sglang=={packages.sglang}")
    return passed(name, f"the {len([p for p in _WATCHED if p in pins])} packages that matter are as pinned", WARNING)


def check_cuda(packages: Packages, driver: Optional[str], capability: Optional[Tuple[int, int]]) -> Check:
    """Whether torch's CUDA fits the driver and the GPU."""
    name = "cuda-build"
    built = _numbers(packages.torch_cuda)
    if built is None:
        return unknown(name, "torch's CUDA version is not known")
    major = (_numbers(driver) or (None,))[0]
    needed = 580 if built[0] >= 13 else 525
    if major is not None and major < needed:
        detail = f"torch was built for CUDA {packages.torch_cuda}, which needs driver {needed}, this is {driver}"
        return failed(name, detail, "update the driver on the host and its libraries in the container")
    if capability is not None and capability >= _BLACKWELL:
        if built < (12, 8):
            detail = (
                f"torch was built for CUDA {packages.torch_cuda}, which has no code for compute capability "
                f"{capability[0]}.{capability[1]}"
            )
            return failed(name, detail, "install a torch built for CUDA 12.8 or later")
        if major is not None and major < 570:
            return failed(name, f"driver {driver} is older than these GPUs", "install driver 570 or later")
        old = [
            f"{package} {version}"
            for package, version in packages.versions.items()
            if package.startswith("nvidia-nccl-cu") and (_numbers(version) or built) < (2, 26)
        ]
        if old:
            return failed(
                name, f"{old[0]} is older than these GPUs", "install NCCL 2.26 or later in the serving environment"
            )
    return passed(name, f"torch is built for CUDA {packages.torch_cuda}, driver {driver or 'unknown'}")


def pinned(requires: List[str]) -> Iterator[Tuple[str, str]]:
    """The exact versions among requirement lines, without those of extras."""
    for line in requires:
        match = _PIN.match(line.strip())
        if match and "extra" not in (match.group(3) or ""):
            yield match.group(1).lower().replace("_", "-"), match.group(2)


def _numbers(text: Optional[str]) -> Optional[Tuple[int, ...]]:
    parts = re.findall(r"\d+", text or "")
    return tuple(int(part) for part in parts[:2]) if parts else None
