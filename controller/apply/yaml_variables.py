"""Reads variables out of YAML files of somebody else: unknown tags (``!vault``) are passed over, not judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from controller.exits import InputError
from controller.paths import display

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _AnyTag(yaml.SafeLoader):
    """Takes what it does not know for the text or the structure it is written as."""


def _unknown(loader: _AnyTag, suffix: str, node: yaml.Node) -> object:
    if isinstance(node, yaml.ScalarNode):
        return (suffix, loader.construct_scalar(node))
    if isinstance(node, yaml.SequenceNode):
        return (suffix, loader.construct_sequence(node, deep=True))
    assert isinstance(node, yaml.MappingNode)  # noqa: S101 - YAML has no fourth kind
    return (suffix, loader.construct_mapping(node, deep=True))


_AnyTag.add_multi_constructor("!", _unknown)


def variables_in(path: Path, text: str, *, fallback: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the variables of a text; an empty one has none.

    Args:
        path: Whose text it is, for the error.
        text: YAML.
        fallback: Returned instead of an error when the text holds something else.

    Raises:
        InputError: it is not a list of variables, and there is no fallback.
    """
    try:
        found = yaml.load(text, _AnyTag)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        if fallback is not None:
            return fallback
        raise _broken(path, error) from error
    if found is None:
        return {}
    if isinstance(found, dict):
        return found
    if fallback is not None:
        return fallback
    raise InputError(f"{display(path)} does not hold variables (name: value); Ansible cannot read it either.")


def names_in(path: Path, text: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each variable with its line, counted from 1; nothing for what is no list of variables.

    Raises:
        InputError: the text is not YAML.
    """
    try:
        node = yaml.compose(text, _AnyTag)
    except yaml.YAMLError as error:
        raise _broken(path, error) from error
    if isinstance(node, yaml.MappingNode):
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield str(key.value), key.start_mark.line + 1


def _broken(path: Path, error: yaml.YAMLError) -> InputError:
    mark = getattr(error, "problem_mark", None)
    line = f", line {mark.line + 1}" if mark else ""
    return InputError(f"{display(path)}{line} is not YAML: {getattr(error, 'problem', None) or 'it cannot be parsed'}.")
