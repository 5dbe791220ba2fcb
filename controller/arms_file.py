"""Arms from a file: what is worth trying on a kind of machine, with the reason written beside it.

A file is YAML::

    description: what the file asks, and on which machine
    arms:
      - name: nccl-default
        steps: 3
        environment: {NCCL_ALGO: null, NCCL_PROTO: null}

The files shipped with the controller are in ``plans/`` and are named without path and suffix.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from controller.arms import ARM_NAME, ENVIRONMENT_VARIABLE, MAX_STEPS, ROLE_VARIABLE, Arm, steps_arm
from controller.exits import InputError
from controller.paths import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PLANS = REPOSITORY / "plans"
SUFFIX = ".yml"

Scalar = bool | int | float | str
FlagValue = Scalar | list[Scalar] | dict[str, Any] | None


class _Strict(BaseModel):
    """A misspelled key is an error, and ``"3"`` is not 3."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ArmEntry(_Strict):
    """One arm of a file.

    Attributes:
        name: Name of the arm in tables and file names.
        why: What it is expected to show.
        steps: Draft steps; left out, the inventory's speculation holds.
        flags: Server flags without dashes; null takes one away that the inventory gives.
        environment: Environment variables; null takes one away that the inventory gives.
        settings: ``sglang_server_*`` variables of the role.
    """

    name: Annotated[str, Field(pattern=rf"^{ARM_NAME}$")]
    why: str = ""
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = None
    flags: dict[str, FlagValue] = Field(default_factory=dict)
    environment: dict[str, Scalar | None] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)

    @field_validator("flags")
    @classmethod
    def _flags_by_name(cls, flags: dict[str, FlagValue]) -> dict[str, FlagValue]:
        return {name.removeprefix("--"): value for name, value in flags.items()}

    @field_validator("environment")
    @classmethod
    def _environment_by_name(cls, environment: dict[str, Scalar | None]) -> dict[str, Scalar | None]:
        for name, value in environment.items():
            if not ENVIRONMENT_VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} is not an environment variable's name: capital letters, digits and _")
            if isinstance(value, bool):
                raise ValueError(  # noqa: TRY004 - pydantic turns a ValueError into an error of validation
                    f"{name} is {str(value).lower()}: write the text that the program reads, in quotes"
                )
        return environment

    @field_validator("settings")
    @classmethod
    def _settings_by_name(cls, settings: dict[str, Any]) -> dict[str, Any]:
        for name in settings:
            if not ROLE_VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} is not an sglang_server_* variable")
        return settings

    def arm(self) -> Arm:
        """Return the arm that this entry describes."""
        settings = dict(steps_arm(self.steps).settings) if self.steps is not None else {}
        environment = {name: None if value is None else str(value) for name, value in self.environment.items()}
        return Arm(self.name, settings | self.settings, self.flags, environment)


class ArmsFile(_Strict):
    """A whole file.

    Attributes:
        description: What the file asks, on which machine, and how to read the answer.
        arms: At least one arm.
    """

    description: Annotated[str, Field(min_length=1)]
    arms: Annotated[list[ArmEntry], Field(min_length=1)]


def shipped() -> tuple[str, ...]:
    """Return the names of the files that come with the controller."""
    return tuple(sorted(path.stem for path in PLANS.glob(f"*{SUFFIX}")))


def find(name: str) -> Path:
    """Return the path of a file given by path or, when it comes with the controller, by name.

    Raises:
        InputError: there is no such file.
    """
    for path in (Path(name).expanduser(), PLANS / f"{name}{SUFFIX}"):
        if path.is_file():
            return path
    raise InputError(
        f"--arms-file {name}: there is no such file; give a path, or one of those that come along: "
        f"{', '.join(shipped())}."
    )


def read(name: str) -> ArmsFile:
    """Read and check a file of arms.

    Raises:
        InputError: it cannot be read or is not one; the sentence names the file and the place in it.
    """
    path = find(name)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--arms-file {path}: cannot be read: {error}.") from error
    except yaml.YAMLError as error:
        raise InputError(f"--arms-file {path}: is not YAML{_position(error)}.") from error
    try:
        return ArmsFile.model_validate(content)
    except ValidationError as error:
        raise InputError(f"--arms-file {path}: {_sentence(error, content)}.") from error


def read_arms(names: Iterable[str]) -> list[Arm]:
    """Return the arms of several files, in order.

    Raises:
        InputError: as :func:`read`.
    """
    return [entry.arm() for name in names for entry in read(name).arms]


def _position(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return f"{place}: {problem}" if problem else place


def _sentence(error: ValidationError, content: object) -> str:
    """Return the first complaint as ``arm 2 (tree), steps: …``; the others follow when it is put right."""
    if not isinstance(content, dict):
        return "begins with something else than the keys description and arms"
    first = min(error.errors(), key=lambda entry: len(entry["loc"]))
    place = ", ".join(_place([part for part in first["loc"] if not str(part).endswith("]")], content))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "there is no such key"
    elif first["type"] == "string_pattern_mismatch":
        message = "letters, digits, dots, dashes and underscores, at most 64"
    return f"{place}: {message[:1].lower()}{message[1:]}" if place else message


def _place(parts: Sequence[str | int], content: dict[str, Any]) -> Iterator[str]:
    """Yield the words for a place: ``arm 2 (tree)`` for the second of the arms, the other parts as they are."""
    if len(parts) > 1 and parts[0] == "arms":
        yield _arm(int(parts[1]), content)
        parts = parts[2:]
    yield from map(str, parts)


def _arm(part: int, content: dict[str, Any]) -> str:
    """Return an arm by its number, with its name where it has one."""
    entry = content["arms"][part]
    name = entry.get("name") if isinstance(entry, dict) else None
    return f"arm {part + 1} ({name})" if isinstance(name, str) else f"arm {part + 1}"
