"""Arms of a sweep: a name and the ``sglang_server_*`` variables that make this arm differ from the inventory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.exits import InputError
from controller.redaction import split_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BASELINE = "baseline"
BASELINE_AGAIN = "baseline-again"
"""The second arm of an A/A sweep."""
MAX_STEPS = 64
"""More drafted tokens than this is a typing mistake: acceptance never reaches so far."""
ADAPTIVE_START = 7
"""The largest candidate of every release without a file of one's own (srt/speculative/adaptive_spec_params.py). SGLang
refuses a start that is no candidate, and 0.5.15 to 0.5.18 die while they capture graphs when it is not the largest
(sgl-project/sglang issue 30549)."""

ARM_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
ENVIRONMENT_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
ROLE_VARIABLE = re.compile(r"sglang_server_[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Arm:
    """One configuration under test.

    ``settings`` are role variables given to Ansible as extra vars. ``flags`` and ``environment`` are merged over
    what the inventory gives, because an extra var would replace the inventory's dictionary. None in either takes away
    what the inventory gives: the flag is not on the command line, the variable not in the server's environment.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the arm as plain data for plan and journal."""
        return {
            "name": self.name,
            "settings": dict(self.settings),
            "flags": dict(self.flags),
            "environment": dict(self.environment),
        }

    def words(self) -> str:
        """Return what the arm changes, as a reader would write it down: ``--flag value, NAME=value, without NAME``."""
        changes: list[str] = [f"{name.removeprefix('sglang_server_')} {value}" for name, value in self.settings.items()]
        changes += [f"--{name}" if value is True else f"--{name} {value}" for name, value in _given(self.flags)]
        changes += [f"{name}={value}" for name, value in _given(self.environment)]
        gone = [f"--{name}" for name, value in self.flags.items() if value is None]
        gone += [name for name, value in self.environment.items() if value is None]
        return ", ".join([*changes, *([f"without {' '.join(gone)}"] if gone else [])])

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Arm:
        """Rebuild an arm from :meth:`as_json`."""
        return cls(data["name"], data["settings"], data.get("flags", {}), data.get("environment", {}))


def baseline() -> Arm:
    """Return the arm without speculation: no ``--speculative-*`` flag at all."""
    return Arm(BASELINE, {"sglang_server_speculative": False})


def aa_arms() -> tuple[Arm, Arm]:
    """Return two arms that differ in nothing but their names: what is measured between them is noise."""
    return baseline(), Arm(BASELINE_AGAIN, baseline().settings)


def steps_arm(steps: int) -> Arm:
    """Return the arm that drafts ``steps`` tokens per cycle."""
    return Arm(
        f"steps-{steps}",
        {"sglang_server_speculative": True, "sglang_server_speculative_num_steps": steps},
    )


def adaptive_arm() -> Arm:
    """Return the arm in which the server chooses the steps itself, from the largest candidate down."""
    return Arm(
        "adaptive",
        {
            "sglang_server_speculative": True,
            "sglang_server_speculative_adaptive": True,
            "sglang_server_speculative_num_steps": ADAPTIVE_START,
        },
    )


def parse_steps(text: str) -> tuple[int, ...]:
    """Parse ``2,3`` into ``(2, 3)``.

    Raises:
        InputError: an empty list, something that is not a whole number from 1 to 64, or a number given twice.
    """
    parts = [part.strip() for part in text.split(",")]
    if parts == [""]:
        raise InputError("--steps is empty: give numbers of draft steps, for example --steps 2,3.")
    steps: list[int] = []
    for part in parts:
        if not re.fullmatch(r"[0-9]{1,3}", part) or not 1 <= int(part) <= MAX_STEPS:
            hint = " (no speculation is an arm of its own)" if part == "0" else ""
            raise InputError(f"--steps: {part!r} is not a whole number from 1 to {MAX_STEPS}{hint}.")
        if int(part) in steps:
            raise InputError(f"--steps: {int(part)} is given twice; name each number of steps once.")
        steps.append(int(part))
    return tuple(steps)


def parse_arm(text: str) -> Arm:
    """Parse ``NAME=KEY:VALUE,KEY:VALUE`` into an arm.

    A key is a server flag (``--kv-cache-dtype``), an environment variable (``NCCL_ALGO``), ``steps``, or a role
    variable (``sglang_server_mem_fraction_static``). Values ``true``, ``false`` and numbers are read as such. A flag or
    environment variable with an empty value (``NCCL_ALGO:``) is taken away from what the inventory gives.

    Raises:
        InputError: the text has another form.
    """
    name, separator, rest = text.partition("=")
    if not separator or not re.fullmatch(ARM_NAME, name) or not rest:
        raise InputError(
            f"--arm {text!r}: write NAME=KEY:VALUE[,KEY:VALUE…], for example --arm tree=steps:3,NCCL_ALGO:Tree."
        )
    settings: dict[str, Any] = {}
    flags: dict[str, Any] = {}
    environment: dict[str, str | None] = {}
    for item in rest.split(","):
        key, colon, value = item.partition(":")
        if key.startswith("--") and len(key) > 2:
            flags[key.removeprefix("--")] = (_value(value) if value else None) if colon else True
        elif colon and ENVIRONMENT_VARIABLE.fullmatch(key):
            environment[key] = value or None
        elif not colon or not value:
            raise InputError(f"--arm {name}: {item!r} is not KEY:VALUE.")
        elif key == "steps":
            settings.update(steps_arm(*parse_steps(value)[:1]).settings)
        elif ROLE_VARIABLE.fullmatch(key):
            settings[key] = _value(value)
        else:
            raise InputError(
                f"--arm {name}: {key!r} is neither a --flag, an ENVIRONMENT_VARIABLE, a sglang_server_* name nor steps."
            )
    return Arm(name, settings, flags, environment)


def build_arms(
    steps: Sequence[int],
    *,
    with_baseline: bool = True,
    adaptive: bool = False,
    extra: Iterable[str] = (),
    from_files: Iterable[Arm] = (),
) -> tuple[Arm, ...]:
    """Return the arms of a sweep, the baseline first.

    Raises:
        InputError: two arms of one name, no arm at all, or a secret in one.
    """
    arms = [baseline()] if with_baseline else []
    arms += [steps_arm(count) for count in steps]
    if adaptive:
        arms.append(adaptive_arm())
    arms += [parse_arm(text) for text in extra]
    arms += from_files
    names = [arm.name for arm in arms]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two arms are called {name!r}; give each --arm, and each arm of a file, its own name.")
    if not arms:
        raise InputError("nothing to measure: give --steps, --adaptive, --arm or --arms-file.")
    for arm in arms:
        _refuse_secrets(arm)
    return tuple(arms)


def _refuse_secrets(arm: Arm) -> None:
    """A plan and its reports say what an arm changes, so no secret may be among that."""
    _, secrets = split_secrets({**arm.settings, **arm.flags, **arm.environment})
    if secrets:
        raise InputError(
            f"arm {arm.name!r} sets {', '.join(secrets)}, which looks like a secret, and plans and reports show what "
            "an arm sets; put it into the inventory, where all arms get it."
        )


def _given(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in values.items() if value is not None]


def _value(text: str) -> bool | int | float | str:
    """Read a scalar as the number or boolean it looks like, else keep the text."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"-?[0-9]*\.[0-9]+", text):
        return float(text)
    return text
