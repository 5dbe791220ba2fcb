# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Filters that tell secrets from what may be shown, by the same rules as everything else here."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import split_secrets


def without_secrets(variables: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the variables that may be shown."""
    return split_secrets(variables)[0]


def only_secrets(variables: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the variables whose name or value gives them away as secrets."""
    return split_secrets(variables)[1]


def secret_values(variables: Mapping[str, Any]) -> List[str]:
    """Return the values of the secret variables, to be replaced wherever they stand."""
    return [str(value) for value in only_secrets(variables).values()]


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> Dict[str, Callable[[Mapping[str, Any]], Any]]:
        """Return the filters by name."""
        return {"without_secrets": without_secrets, "only_secrets": only_secrets, "secret_values": secret_values}
