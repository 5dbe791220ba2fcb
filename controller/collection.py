"""Makes the collection's shared code importable for the controller: from the checkout, or from the wheel's copy of it.

What runs on the target (``plugins/module_utils``) and what the controller does with the same things must agree, so
there is one implementation. Importing this module is enough; then ``ansible_collections.sglang_ops.eagle3`` is there.
"""

from __future__ import annotations

import sys

from controller.paths import REPOSITORY

SEARCH_PATH = REPOSITORY / "collections"
"""The directory that holds ``ansible_collections``."""

if str(SEARCH_PATH) not in sys.path:
    sys.path.insert(0, str(SEARCH_PATH))
