"""What the two start-up files that carry NCCL's variables contain, and which of the two a Python needs.

`sitecustomize.py` is imported by every Python of a venv at its start, unless another file of that name comes first on
the path (Debian and Ubuntu ship one). A `.pth` file in site-packages runs beside all of them. Both set a variable only
when it is not set: whoever launches with a value of his own, such as a sweep over NCCL's settings, keeps it. Whoever
launches without one of them, to have NCCL's own default, names it in the variable `EAGLE3_OPS_UNSET`: it is left out.

Pure: no input or output.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Mapping, Optional

SITECUSTOMIZE = "sitecustomize.py"
PTH = "zz_sglang_nccl_env.pth"
UNSET = "EAGLE3_OPS_UNSET"
"""Environment variable of a launch: names, separated by commas, that the start-up file must not set for it."""

_BEGIN = "# BEGIN sglang_ops.eagle3.nccl_env: managed, changes are lost\n"
_END = "# END sglang_ops.eagle3.nccl_env\n"
_BLOCK = re.compile(re.escape(_BEGIN) + ".*?" + re.escape(_END), re.DOTALL)
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_ANY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET_DEFAULT = f"""\
from os import environ as _environ

_unset = _environ.get({UNSET!r}, "").split(",")


def _set_default(name, value):
    if name not in _unset:
        _environ.setdefault(name, value)


"""


class VariableError(ValueError):
    """A variable cannot be written; the message is one sentence."""


def check_variables(variables: Mapping[str, object]) -> Dict[str, str]:
    """The variables as text.

    Raises:
        VariableError: a name or a value cannot be one of an environment variable.
    """
    if not variables:
        raise VariableError("nccl_env_variables is empty: name a variable, or set nccl_env_state to absent.")
    checked = {}
    for name, value in variables.items():
        if not _NAME.fullmatch(name):
            raise VariableError(f"{name!r} is not a variable's name: use capital letters, digits and _.")
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise VariableError(f"{name} is {value!r}: give a text or a number.")
        text = str(value)
        if any(character in text for character in "\0\n\r"):
            raise VariableError(f"{name} has a line break or a NUL in its value: give one line.")
        checked[name] = text
    return checked


def check_names(names: Iterable[object]) -> List[str]:
    """The names of variables that a launch leaves out.

    Raises:
        VariableError: one of them cannot be the name of an environment variable.
    """
    checked = [str(name) for name in names]
    for name in checked:
        if not _ANY_NAME.fullmatch(name):
            raise VariableError(f"{name!r} is not a variable's name: use letters, digits and _.")
    return checked


def has_block(text: str) -> bool:
    """Whether a sitecustomize.py carries the managed block."""
    return _BLOCK.search(text) is not None


def is_foreign(text: Optional[str]) -> bool:
    """Whether a sitecustomize.py is somebody else's, so that it must stay as it is."""
    return text is not None and not has_block(text)


def with_block(text: Optional[str], variables: Mapping[str, str]) -> str:
    """A sitecustomize.py with the managed block; lines that others added around it stay."""
    lines = [f"_set_default({name!a}, {value!a})\n" for name, value in variables.items()]
    block = "".join([_BEGIN, _SET_DEFAULT, *lines, _END])
    if text is None:
        return block
    return _BLOCK.sub(lambda _: block, text, count=1)


def without_block(text: Optional[str]) -> Optional[str]:
    """A sitecustomize.py without the managed block; None when nothing else was in it, so that the file goes."""
    if text is None or not has_block(text):
        return text
    return _BLOCK.sub("", text) or None


def pth_text(variables: Mapping[str, str]) -> str:
    """The .pth file: Python runs a line of it that begins with import, and nothing but single lines."""
    calls = "; ".join(
        f"{name!a} in _unset or os.environ.setdefault({name!a}, {value!a})" for name, value in variables.items()
    )
    unset = f"_unset = os.environ.get({UNSET!r}, '').split(',')"
    return f"# sglang_ops.eagle3.nccl_env: managed, changes are lost\nimport os; {unset}; {calls}\n"


def reasons_against_sitecustomize(text: Optional[str], own: str, imported: Optional[str]) -> List[str]:
    """Why the venv's sitecustomize.py cannot carry the variables; empty when it can.

    Args:
        text: what the file holds now, None when there is none.
        own: its path.
        imported: path of the sitecustomize that this Python imports, None for none.
    """
    reasons = []
    if is_foreign(text):
        reasons.append(f"{own} belongs to somebody else")
    if imported is not None and imported != own:
        reasons.append(f"this Python imports {imported} before it")
    return reasons
