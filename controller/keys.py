"""The keys of the server's HTTP, for whoever sends it requests. They are kept in memory only.

They come from ``$SGLANG_API_KEY`` and ``$SGLANG_ADMIN_API_KEY``, else from the inventory: ``sglang_server_api_key`` and
``sglang_server_admin_api_key``. A value that is encrypted or a template is resolved by Ansible, which writes it to a
private file for the moment.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from controller.exits import TargetError
from controller.playbooks import Playbooks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.inventory import Target

NAMES = ("api_key", "admin_api_key")


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that requests carry; None where the server asks for none. Not shown by ``repr``."""

    api_key: str | None = field(default=None, repr=False)
    admin_api_key: str | None = field(default=None, repr=False)


def read_keys(target: Target) -> Keys:
    """Return the keys of a target's server.

    Raises:
        TargetError: Ansible cannot resolve them (the vault's password is missing, a lookup fails).
    """
    given = {
        name: os.environ.get(f"SGLANG_{name.upper()}") or target.variables.get(f"sglang_server_{name}") or None
        for name in NAMES
    }
    if any(value is not None and not _is_plain(value) for value in given.values()):
        resolved = _resolved(target)
        given = {name: value if _is_plain(value) else resolved[name] for name, value in given.items()}
    return Keys(**given)


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and "{{" not in value and "{%" not in value


def _resolved(target: Target) -> Mapping[str, str | None]:
    with tempfile.TemporaryDirectory(prefix="controller-") as folder:
        destination = Path(folder, "keys.json")
        played = Playbooks(target).run("keys", directory=Path(folder), extra_vars={"keys_dest": str(destination)})
        if not played.ok:
            raise TargetError(f"the server's key cannot be read from the inventory: {played.sentence}")
        content = json.loads(destination.read_text(encoding="utf-8"))
    return {name: content.get(name) or None for name in NAMES}
