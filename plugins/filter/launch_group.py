# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The filter that names the machine with which the end of a launch on several machines began."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_group import first_failure


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"first_failure": first_failure}
