"""Build hook: puts playbooks, roles, modules, inventories and runbooks into the wheel: it works without a checkout.

In the wheel they lie under ``controller/_collection`` in the layout of the checkout, except that the modules are where
Ansible looks for them: in the checkout a symbolic link does that, which a wheel cannot hold. An editable install gets
nothing: it finds the checkout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DESTINATION = "controller/_collection"
COLLECTION = f"{DESTINATION}/collections/ansible_collections/sglang_ops/eagle3"
AS_IN_THE_CHECKOUT = ("ansible.cfg", "deploy.yml", "docs/runbooks", "inventory", "plans", "playbooks", "roles")
OF_THE_COLLECTION = ("galaxy.yml", "meta", "plugins")
LEFT_OUT = ("__pycache__",)


class CollectionInWheel(BuildHookInterface[Any]):
    """Adds the collection to a wheel that is not editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files; called by hatchling before it builds."""
        if self.target_name != "wheel" or version != "standard":
            return
        root = Path(self.root)
        places = [(name, DESTINATION) for name in AS_IN_THE_CHECKOUT] + [
            (name, COLLECTION) for name in OF_THE_COLLECTION
        ]
        for name, destination in places:
            source = root / name
            files = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.is_file())
            for path in files:
                if not any(part in LEFT_OUT for part in path.parts):
                    build_data["force_include"][str(path)] = f"{destination}/{path.relative_to(root)}"
