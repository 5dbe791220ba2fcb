"""Makes the collection's shared code importable for the controller: from the checkout, else from the copy in the wheel.

What runs on the target (``plugins/module_utils``) and what the controller does with the same things must agree, so
there is one implementation. Importing this module is enough; then ``ansible_collections.sglang_ops.eagle3`` is there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from controller.paths import REPOSITORY

WITHIN_WHEEL = Path(__file__).parent / "bundled"
"""Where ``pyproject.toml`` puts ``plugins/module_utils`` of a wheel, which has no checkout around it."""
_PACKAGE = Path("ansible_collections", "sglang_ops", "eagle3", "plugins", "module_utils")


def search_path() -> Path:
    """Return the directory that holds ``ansible_collections``."""
    checkout = REPOSITORY / "collections"
    return checkout if (checkout / _PACKAGE).is_dir() else WITHIN_WHEEL


if str(search_path()) not in sys.path:
    sys.path.insert(0, str(search_path()))
